"""HESHING beside its rivals: errors, memory and time on five label trees, and every promise
checked.

python bench/heshing.py                                      # everything: hours
python bench/heshing.py --sections table,theorem2 --sets newsgroups20 --seeds 1
python bench/heshing.py --out runs.jsonl                     # keeps runs, repeats none

Sections: table (HESHING and flat hashing at three sizes), rivals, curve (error against bits, with a
picture), speed, late (a class that comes half way), theorem2 (lost features, counted), hashes
(against scikit-learn's MurmurHash3).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import bitkin
from _label_trees import SETS, TreeSet, load_set
from _timing import interleaved, report
from _tiny import picture, sized
from _tree_run import HASHED, SEEDLESS, measured
from bitkin.learn.heshing.settings import AUTO_BEAM

Runs = list[dict[str, Any]]

SIZES = sized((2**14, 2**16, 2**18), (2**8, 2**9))
MANY_CLASSES = ("onet", "tinyimagenet", "icd10cm")
FULL_RIVALS = ("ovr", "crammer_singer", "hierarchical_svm", "top_down", "hiclass")
NEWSGROUPS_GOALS = {2**18: (0.265, 0.435), 2**16: (0.305, 0.510)}


class Bench:
    """Runs methods, each once, and keeps what they gave."""

    def __init__(self, seeds: int, kept: Path | None, timeout: float):
        self.seeds, self.kept, self.timeout = seeds, kept, timeout
        lines = kept.read_text().splitlines() if kept is not None and kept.exists() else []
        self.runs: dict[str, dict[str, Any]] = {run["key"]: run for run in map(json.loads, lines)}

    def run(self, name: str, method: str, **more: Any) -> dict[str, Any]:
        """Return what a method gave on a set, of this run of the bench or of an earlier one.

        The strength is chosen once a set and method, on rows held out of the training set, in the
        middle of the sizes.
        """
        spec = {
            "set": name,
            "method": method,
            "seeds": 1 if method in SEEDLESS else self.seeds,
            **more,
        }
        key = json.dumps(spec)
        if key not in self.runs:
            chosen = [
                run["strength"]
                for run in self.runs.values()
                if (run["set"], run["method"]) == (name, method) and "strength" in run
            ]
            told = {"strength": chosen[0]} if chosen else {"chosen_at": self.middle(name, method)}
            result = {"key": key, **measured(spec | told, self.timeout)}
            self.runs[key] = result
            shown = {field: value for field, value in result.items() if field != "key"}
            report("run", **shown | {"strength": f"{result.get('strength', float('nan')):.3g}"})
            if self.kept is not None and "failed" not in result:
                with self.kept.open("a") as file:
                    file.write(json.dumps(result) + "\n")
        return self.runs[key]

    def middle(self, name: str, method: str) -> dict[str, int | None]:
        """Return the size at which a method that has one is to choose its strength."""
        if method in HASHED:
            return {"n_buckets": SIZES[1]}
        if method == "vw":
            return {"n_buckets": SIZES[1] * n_tables(name)}
        return (
            {"n_components": None, "n_bytes": 4 * SIZES[1] * n_tables(name)}
            if method == "pca"
            else {}
        )


def n_tables(name: str) -> int:
    """Levels below the root: how often HESHING has `n_buckets` weights."""
    return load_set(name).taxonomy.n_levels - 1


def verdict(claim: str, met: bool, **figures: Any) -> None:
    report("verdict", claim=claim, **figures, met=bool(met))


def table(bench: Bench, names: list[str]) -> None:
    for name in names:
        tables = n_tables(name)
        rows: Runs = []
        for m in SIZES:
            ours, flat = (
                bench.run(name, "heshing", n_buckets=m),
                bench.run(name, "flat", n_buckets=m),
            )
            total = bench.run(name, "flat", n_buckets=m * tables)
            rows += [ours, flat, {**total, "method": f"flat × {tables}"}]
            if any("failed" in run for run in (ours, flat, total)):
                continue
            for kind in ("flat", "hier"):
                bar = ours[kind] - 2 * np.hypot(ours[f"{kind}_se"], flat[f"{kind}_se"])
                verdict(
                    f"{name}, {m} buckets: {kind} error at or below flat hashing's",
                    bar <= flat[kind],
                    ours=ours[kind],
                    flat_hashing=flat[kind],
                    same_total_memory=total[kind],
                )
            if name.startswith("newsgroups20") and m in NEWSGROUPS_GOALS:
                goal = NEWSGROUPS_GOALS[m]
                met = ours["flat"] <= goal[0] and ours["hier"] <= goal[1]
                verdict(
                    f"{name}, {m} buckets: at most {goal}",
                    met,
                    flat=ours["flat"],
                    hier=ours["hier"],
                )
        print_runs(f"{name}: hashing", rows)


def rivals(bench: Bench, names: list[str]) -> None:
    for name in names:
        tables = n_tables(name)
        ours = [bench.run(name, "heshing", n_buckets=m) for m in SIZES]
        rows = list(ours)
        rows += [bench.run(name, method) for method in FULL_RIVALS]
        rows += [bench.run(name, "vw", n_buckets=m * tables) for m in SIZES]
        rows += [bench.run(name, "pca", n_bytes=4 * m * tables) for m in SIZES]
        rows.append(
            bench.run(
                name, "pca", n_components=sized(500, 40) if name != "imclef07a" else sized(40, 5)
            )
        )
        print_runs(f"{name}: rivals", rows)
        if name in MANY_CLASSES:
            same_memory(bench, name, ours, rows)
    if "icd10cm" in names:
        ours_18, theirs = (
            bench.run("icd10cm", "heshing", n_buckets=2**18),
            bench.run("icd10cm", "hiclass"),
        )
        for what, limit in (("cpu_seconds", 1.0), ("bytes", 0.25)):
            share = ours_18.get(what, np.nan) / theirs.get(what, np.nan)
            verdict(f"icd10cm: {what} at most {limit} of HiClass's", share <= limit, share=share)


def same_memory(bench: Bench, name: str, ours: Runs, rows: Runs) -> None:
    """What every rival reaches in HESHING's memory, and what it needs to reach HESHING's error."""
    tables = n_tables(name)
    sweep = [bench.run(name, "flat", n_buckets=m * tables) for m in SIZES]
    sweep += [run for run in rows if run["method"] != "heshing"]
    for mine in (run for run in ours if "failed" not in run):
        for method in dict.fromkeys(run["method"] for run in sweep):
            theirs = [run for run in sweep if run["method"] == method and "hier" in run]
            within = [run["hier"] for run in theirs if run["bytes"] <= 1.4 * mine["bytes"]]
            enough = [run["bytes"] for run in theirs if run["hier"] <= mine["hier"]]
            report(
                "the same memory",
                set=name,
                n_buckets=mine["n_buckets"],
                our_bytes=mine["bytes"],
                ours=mine["hier"],
                rival=method,
                theirs=min(within) if within else "does not fit",
                bytes_to_reach_ours=min(enough) if enough else "never here",
            )


def curve(bench: Bench, names: list[str]) -> None:
    for name in names:
        tables = n_tables(name)
        sizes = [2**bits for bits in sized(range(10, 21, 2), range(8, 10))]
        found = {
            "HESHING": [bench.run(name, "heshing", n_buckets=m) for m in sizes],
            "flat hashing, as many buckets": [bench.run(name, "flat", n_buckets=m) for m in sizes],
            "flat hashing, as much memory": [
                bench.run(name, "flat", n_buckets=m * tables) for m in sizes
            ],
        }
        if any("failed" in run for rows in found.values() for run in rows):
            continue
        for title, rows in found.items():
            for run, m in zip(rows, sizes, strict=True):
                report(
                    "curve",
                    set=name,
                    method=title,
                    bits=int(np.log2(m)),
                    flat=run["flat"],
                    hier=run["hier"],
                )
        draw_curve(name, sizes, found)


def draw_curve(name: str, sizes: list[int], found: dict[str, Runs]) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    for axes, kind, title in zip(
        figure.subplots(1, 2), ("flat", "hier"), ("flat", "hierarchical"), strict=True
    ):
        for (method, rows), style in zip(found.items(), ("o-", "s--", "^:"), strict=True):
            axes.plot(np.log2(sizes), [run[kind] for run in rows], style, label=method)
        axes.set(xlabel="bits: log₂ of buckets a level", ylabel=f"{title} error", title=name)
        axes.grid(alpha=0.3)
    figure.axes[0].legend(frameon=False)
    path = picture(f"heshing_{name}.png")
    figure.savefig(path, dpi=130, metadata={"Software": None})
    report("picture", path=path.name)


def speed(bench: Bench, names: list[str]) -> None:
    bitkin.set_threads(1)
    if "newsgroups20" in names:
        data = load_set("newsgroups20")
        from sklearn.linear_model import SGDClassifier

        X, y = data.X[:, : data.n_learned], data.labels[data.y]
        ours = bitkin.HeshingClassifier(data.taxonomy, alpha=1e-4)
        theirs = SGDClassifier(alpha=1e-5, max_iter=10, tol=None, average=True)
        times = interleaved(
            {"ours": lambda: ours.fit(data.X, y), "theirs": lambda: theirs.fit(X, data.y)}, rounds=3
        )
        ratio = times["ours"] / times["theirs"]
        claim = "newsgroups20, 10 passes: at most 4 times SGDClassifier"
        verdict(claim, ratio <= 4, ratio=ratio, seconds=times["ours"], theirs=times["theirs"])
    if "icd10cm" in names:
        beam_speed(load_set("icd10cm"))


def beam_speed(data: TreeSet) -> None:
    """Beam search against scoring every node: training, in CPU seconds of one thread, then
    prediction.
    """
    alpha, y = 1e-6, data.labels[data.y]
    made = {
        beam: bitkin.HeshingClassifier(data.taxonomy, alpha=alpha, beam=beam)
        for beam in (AUTO_BEAM, None)
    }
    few = np.arange(min(2000, len(y)))
    errors, seconds = {}, {}
    for beam, model in made.items():
        model.fit(data.X[few], y[few])
        start = time.process_time()
        model.fit(data.X, y)
        seconds[beam] = time.process_time() - start
        errors[beam] = data.errors(data.taxonomy.index_of(model.predict(data.X_test)))
    ratio, lost = seconds[None] / seconds[AUTO_BEAM], errors[AUTO_BEAM][0] - errors[None][0]
    verdict(
        "icd10cm: training with a beam at least 3 times faster",
        ratio >= 3,
        ratio=ratio,
        seconds=seconds[AUTO_BEAM],
    )
    verdict(
        "icd10cm: training with a beam loses at most 0.5 points",
        lost <= 0.005,
        flat=errors[AUTO_BEAM][0],
        lost=lost,
    )
    for learned, model in made.items():
        beam_prediction(
            data, model, f"a model learned {'with a beam' if learned else 'on every node'}"
        )


def beam_prediction(data: TreeSet, model: bitkin.HeshingClassifier, which: str) -> None:
    scorer, rows = model._model.scorer(model.n_features_in_), next(iter(model._rows(data.X_test)))
    jobs: dict[str, Callable[[], Any]] = {
        "beam": lambda: scorer.best(rows, 1, AUTO_BEAM)[0],
        "all": lambda: scorer.best(rows, 1, None)[0],
    }
    times = interleaved(jobs, rounds=3)
    ratio = times["all"] / times["beam"]
    true = data.y_test[: len(rows.indptr) - 1]
    wrong = {
        name: (data.taxonomy.index_of(model.classes_[job()[:, 0]]) != true).mean()
        for name, job in jobs.items()
    }
    lost, gap = float(wrong["beam"] - wrong["all"]), model.beam_gap(data.X_test, AUTO_BEAM)
    verdict(
        f"icd10cm, {which}: prediction with a beam at least 5 times faster", ratio >= 5, ratio=ratio
    )
    verdict(
        f"icd10cm, {which}: prediction with a beam loses less than 0.5 points", lost < 0.005,
        wrong_with_beam=float(wrong["beam"]), wrong_with_all=float(wrong["all"]), other_answers=gap,
    )  # fmt: skip


def late(bench: Bench, names: list[str]) -> None:
    """A class whose rows all come in the second half, against the same rows in any order, with all
    classes known.
    """
    if "newsgroups20" not in names:
        return
    data = load_set("newsgroups20")
    labels, differences = data.labels, []
    for seed in range(bench.seeds):
        for number in sized((3, 9, 17), (3,)):
            order = np.random.default_rng(seed).permutation(len(data.y))
            half = len(order) // 2
            is_new = data.y[order] == number
            early, later = (
                order[:half][~is_new[:half]],
                np.concatenate([order[half:], order[:half][is_new[:half]]]),
            )
            later = np.random.default_rng(seed).permutation(later)
            path = data.taxonomy.path_of(labels[number])
            others = [
                data.taxonomy.path_of(label)
                for label in data.taxonomy.classes
                if label != labels[number]
            ]
            accuracy = {}
            for knew in (True, False):
                model = bitkin.HeshingClassifier(
                    data.taxonomy if knew else bitkin.Taxonomy.from_paths(others), random_state=seed
                )
                first, second = (order[:half], order[half:]) if knew else (early, later)
                model.partial_fit(data.X[first], labels[data.y[first]])
                model.partial_fit(
                    data.X[second], labels[data.y[second]], paths=None if knew else [path]
                )
                predicted = model.predict(data.X_test)
                tested = data.y_test == number
                accuracy[knew] = (
                    float((predicted[tested] == labels[number]).mean()),
                    float((predicted == labels[data.y_test]).mean()),
                )
            differences.append(np.subtract(accuracy[True], accuracy[False]))
            report(
                "late class",
                label=labels[number],
                seed=seed,
                knew=accuracy[True],
                late=accuracy[False],
            )
    of_class, of_all = np.mean(differences, axis=0)
    met = of_class <= 0.02 and of_all <= 0.02
    verdict(
        "a late class within 2 points",
        met,
        points_behind=float(of_class),
        all_classes_behind=float(of_all),
    )


def theorem2(bench: Bench, names: list[str]) -> None:
    """Count features that meet another one on every level, and compare with the expectation and its
    bound.
    """
    from bitkin.kernels.heshing import place_features_into

    for d, m, levels in (
        (20_000, 2**14, 2),
        (20_000, 2**14, 3),
        (50_000, 2**16, 3),
        (130_000, 2**17, 5),
    ):
        features = np.arange(d, dtype=np.uint32)
        lost = []
        for trial in range(sized(20, 3)):
            alone = np.zeros(d, dtype=bool)
            for level in range(levels):
                buckets, signs = np.empty(d, dtype=np.uint32), np.empty(d, dtype=np.float32)
                place_features_into(
                    features, np.uint32(1 + trial * levels + level), m, buckets, signs
                )
                alone |= np.bincount(buckets, minlength=m)[buckets] == 1
            lost.append(int((~alone).sum()))
        exact = bitkin.theory.expected_feature_loss(d, m, levels, exact=True)
        bound = bitkin.theory.expected_feature_loss(d, m, levels)
        mean, error = float(np.mean(lost)), float(np.std(lost, ddof=1) / np.sqrt(len(lost)))
        met = abs(mean - exact) <= 4 * error + 1 and exact <= bound
        verdict(
            f"Theorem 2: d {d}, m {m}, T {levels}",
            met,
            counted=mean,
            standard_error=error,
            exact=exact,
            bound=bound,
        )


def hashes(bench: Bench, names: list[str]) -> None:
    from sklearn.utils import murmurhash3_32

    from bitkin.kernels.heshing import hash_pairs_into

    rng = np.random.default_rng(0)
    features = rng.integers(0, 2**32, 1000, dtype=np.uint32)
    seeds = rng.integers(0, 2**32, 1000, dtype=np.uint32)
    pairs = np.repeat(features, 1000), np.tile(seeds, 1000)
    ours = np.empty(10**6, dtype=np.uint32)
    hash_pairs_into(*pairs, ours)
    theirs = np.stack(
        [murmurhash3_32(features.view(np.int32), int(seed), positive=True) for seed in seeds],
        axis=1,
    )
    verdict(
        "a million hashes equal scikit-learn's",
        np.array_equal(ours, theirs.reshape(-1)),
        pairs=len(ours),
    )


def print_runs(title: str, rows: Runs) -> None:
    """Print a table for reading."""
    heads = (
        f"{'flat':>8}{'hier':>8}{'model MB':>10}{'peak MB':>9}{'train CPU s':>13}{'predict s':>10}"
    )
    print(f"\n{title}\n{'method':<26}{heads}")
    for run in rows:
        size = run.get("n_buckets") or run.get("n_components")
        name = f"{run['method']}{f' {size:,}' if size else ''}"
        if "failed" in run:
            print(f"{name:<26}{run['failed']}")
            continue
        print(
            f"{name:<26}{run['flat']:>8.4f}{run['hier']:>8.4f}{run['bytes'] / 1e6:>10.2f}"
            f"{run['train_peak_bytes'] / 1e6:>9.1f}{run['cpu_seconds']:>13.1f}"
            f"{run['predict_seconds']:>10.2f}"
        )
    print(flush=True)


SECTIONS: dict[str, Callable[[Bench, list[str]], None]] = {
    "hashes": hashes,
    "theorem2": theorem2,
    "table": table,
    "curve": curve,
    "rivals": rivals,
    "late": late,
    "speed": speed,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sections", default=",".join(SECTIONS))
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="JSON lines of runs: read first, then added to")
    parser.add_argument(
        "--timeout", type=float, default=1800, help="seconds for one method on one set"
    )
    chosen = parser.parse_args()
    bench = Bench(chosen.seeds, chosen.out, chosen.timeout)
    for section in chosen.sections.split(","):
        start = time.perf_counter()
        SECTIONS[section](bench, chosen.sets.split(","))
        report("section done", section=section, seconds=time.perf_counter() - start)


if __name__ == "__main__":
    main()
