"""`bitkin search` by better distances than those of codes; a collection with the same rows is the
truth.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bitkin
from bitkin import Collection
from tests.cli.conftest import Outcome, Run
from tests.cli.formats import WRITERS
from tests.cli.search_folder import folder, made, require_failure  # noqa: F401  # fixtures

pytestmark = pytest.mark.usefixtures("folder")

EXACT = ("--vectors", "vectors.npy")
ESTIMATE = ("--corrections", "corrections")
ASK = ("search", "index", "queries.npy", "-m", "model")


def truth(k: int, ids: Any = None, allow: Any = None, metric: str = "l2", **options: Any) -> Any:
    collection = Collection.create(None, bitkin.load("model"), metric=metric)
    collection.add(np.load("vectors.npy"), ids=ids)
    return collection.search(np.load("queries.npy"), k, allow=allow, **options)


def require_same(lines: list[dict[str, Any]], hits: Any) -> None:
    assert [line["query"] for line in lines] == list(range(len(hits.ids)))
    assert [line["ids"] for line in lines] == [row[row >= 0].tolist() for row in hits.ids]
    for line, row, ids in zip(lines, hits.distances, hits.ids, strict=True):
        assert np.allclose(line["distances"], row[ids >= 0], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("oversample", [1, 10])
def test_every_stage_finds_what_a_collection_finds(run: Run, oversample: int) -> None:
    over = ("--oversample", oversample)
    assert (
        truth(3, stage="codes").ids.tolist()
        != truth(3, stage="exact", oversample=oversample).ids.tolist()
    )
    for options, stage in (
        (("--stage", "codes"), "codes"),
        ((*ESTIMATE, *over), "estimate"),
        (("--stage", "estimate", *ESTIMATE, *over), "estimate"),
        (("--stage", "estimate", *EXACT, *ESTIMATE, *over), "estimate"),
        ((*EXACT, *ESTIMATE, *over), "exact"),
        (("--stage", "exact", *EXACT, *ESTIMATE, *over), "exact"),
    ):
        done = run(*ASK, "-k", 3, *options, "--json")
        assert (done.code, done.err) == (0, "")
        require_same(done.objects, truth(3, stage=stage, oversample=oversample))


def test_without_corrections_the_vectors_are_measured_right_after_the_codes(run: Run) -> None:
    hasher = bitkin.load("model")
    index = bitkin.FlatIndex.load("index")
    Q, X = np.load("queries.npy"), np.load("vectors.npy")
    shortlist = index.search(hasher.encode(Q), 30)
    wanted = bitkin.rescore(shortlist, Q, stage="exact", k=3, vectors=X)
    require_same(run(*ASK, "-k", 3, *EXACT, "--oversample", 1, "--json").objects, wanted)


@pytest.mark.parametrize("metric", ["l2", "cosine", "ip"])
def test_the_metric_is_that_of_corrections_and_vectors(run: Run, metric: str) -> None:
    done = run(
        *(
            "encode",
            "model",
            "vectors.npy",
            "-o",
            "c",
            "--corrections",
            "m",
            "--metric",
            metric,
            "--json",
        )
    ).objects
    assert (done[0]["corrections"], done[0]["metric"]) == ("m", metric)
    np.save("m.npy", bitkin.corrections(bitkin.load("model"), np.load("vectors.npy"), metric))
    for options, stage in (
        (("--corrections", "m"), "estimate"),
        (("--corrections", "m.npy"), "estimate"),
        (EXACT, "exact"),
    ):
        found = run(*ASK, *options, "--metric", metric, "--oversample", 100, "--json")
        require_same(found.objects, truth(10, metric=metric, stage=stage, oversample=100))


def test_ids_of_ones_own_go_with_vectors_and_corrections(run: Run) -> None:
    ids = np.random.default_rng(0).permutation(1000)[:203]
    Path("ids.txt").write_text("\n".join(map(str, ids.tolist())) + "\n\n")
    np.save("ids.npy", ids)
    assert run("index", "codes", "--ids", "ids.txt", "-o", "named").code == 0
    assert np.array_equal(bitkin.load("named").ids, np.sort(ids))
    for name in ("ids.txt", "ids.npy"):
        found = run(
            "search",
            "named",
            *ASK[2:],
            *EXACT,
            *ESTIMATE,
            "--ids",
            name,
            "--oversample",
            1,
            "--json",
        )
        require_same(found.objects, truth(10, ids=ids, oversample=1))


def test_a_filter_is_a_file_of_numbers_or_lines(run: Run) -> None:
    allow = [3, 77, 5, 999]
    np.save("allow.npy", np.array(allow))
    Path("allow.txt").write_text("3\n 77 \n\n5\r\n999\n")
    for option, name, options, stage in (
        ("--filter", "allow.npy", ("--stage", "codes"), "codes"),
        ("--filter", "allow.txt", ESTIMATE, "estimate"),
        ("--allow", "allow.npy", EXACT, "exact"),
    ):
        found = run(*ASK, "-k", 2, option, name, *options, "--json")
        require_same(found.objects, truth(2, allow=allow, stage=stage))


def test_queries_come_in_batches(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bitkin.file_search.search._QUERIES_AT_ONCE", 4)
    require_same(run(*ASK, *EXACT, *ESTIMATE, "--json").objects, truth(10))


# floats
@pytest.mark.parametrize(
    "name", [name for name in WRITERS if not name.endswith((".bvecs", ".ivecs"))]
)
def test_vectors_may_be_of_any_format(run: Run, name: str) -> None:
    WRITERS[name](Path(name), np.load("vectors.npy"))
    require_same(
        run(*ASK, "--vectors", name, "--oversample", 100, "--json").objects,
        truth(10, oversample=100),
    )


def test_vectors_in_several_files_are_one(run: Run) -> None:
    X = np.load("vectors.npy")
    np.save("a.npy", X[:100])
    np.savez("b.npz", X[100:])
    found = run(*ASK, "--vectors", "a.npy", "--vectors", "b.npz", "--oversample", 100, "--json")
    require_same(found.objects, truth(10, oversample=100))


def test_results_are_written_with_their_types(run: Run) -> None:
    np.save("none.npy", np.empty((0, 17), dtype=np.float32))
    for options, dtype in (((), np.int32), (ESTIMATE, np.float32), (EXACT, np.float64)):
        for queries, n in (("queries.npy", 9), ("none.npy", 0)):
            done = run(
                "search", "index", queries, "-m", "model", "-k", 5, *options, "-o", "found.npz"
            )
            assert (done.code, done.err) == (0, "")
            with np.load("found.npz") as written:
                assert written["ids"].shape == written["distances"].shape == (n, 5)
                assert written["distances"].dtype == dtype
            Path("found.npz").unlink()


def test_explain_is_a_table_that_fits_a_terminal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = run(
        *(*ASK, "-k", 2, *EXACT, *ESTIMATE, "--oversample", 1, "--first", "codes"),
        *("--explain", "--show", 0),
    ).out.splitlines()
    assert max(map(len, lines)) <= 80
    assert "first stage: codes (asked for)" in lines
    rows = {line.split()[0]: line.split()[1:] for line in lines if line.strip()}
    assert "FlatIndex, 9 queries" in "".join(lines)
    assert rows["stage"] == ["µs", "per", "query", "rows", "in", "rows", "out"]
    assert [(name, rows[name][1:]) for name in ("encode", "codes", "estimate", "exact")] == [
        ("encode", ["1", "1"]),
        ("codes", ["203", "20"]),
        ("estimate", ["20", "2"]),
        ("exact", ["2", "2"]),
    ]
    ids = np.arange(30)
    np.save("allow.npy", np.append(ids, [7, 999]))
    filtered = run(*ASK, "--allow", "allow.npy", "--explain", "--show", 0).out.splitlines()
    assert filtered[-1].split()[::2] == ["codes", "30"]
    only_codes = run("search", "index", "codes", "--radius", 0, "--explain", "--show", 0).out
    assert "encode" not in only_codes
    assert "exact" not in only_codes


def test_explain_with_json_is_the_last_line(run: Run) -> None:
    *found, last = run(*ASK, *EXACT, *ESTIMATE, "--explain", "--json").objects
    require_same(found, truth(10))
    assert list(last) == ["explain"]
    assert (last["explain"]["index"], last["explain"]["queries"]) == ("FlatIndex", 9)
    stages = last["explain"]["stages"]
    assert list(stages) == ["encode", "codes", "estimate", "exact"]
    for timing in stages.values():
        assert set(timing) == {
            "seconds",
            "microseconds_a_query",
            "rows_in_a_query",
            "rows_out_a_query",
        }
        assert timing["seconds"] > 0
    assert stages["codes"]["rows_in_a_query"] == 203
    assert stages["exact"]["rows_out_a_query"] == 10
    assert json.dumps(last)
    assert last["explain"]["first"] == "codes"
    assert last["explain"]["why"] == "codes keep all of 203 rows"


def test_the_estimate_of_all_rows_can_come_first(run: Run) -> None:
    few = ("-k", 3, *ESTIMATE, "--oversample", 1, "--first", "estimate", "--json")
    for options, stage in ((few, "estimate"), ((*EXACT, *few), "exact")):
        *found, last = run(*ASK, *options, "--explain").objects
        require_same(found, truth(3, stage=stage, oversample=1, first="estimate"))
        stages = last["explain"]["stages"]
        assert list(stages) == ["encode", "estimate of all rows", stage]
        assert stages["estimate of all rows"]["rows_in_a_query"] == 203
        assert stages["estimate of all rows"]["rows_out_a_query"] == 3
    np.save("ids.npy", np.arange(203)[::-1] * 5)
    np.save("allowed.npy", np.arange(0, 500, 10))
    assert run("index", "codes", "-o", "other", "--ids", "ids.npy").code == 0
    given = (*EXACT, *few, "--ids", "ids.npy", "--allow", "allowed.npy")
    allowed = truth(
        3, ids=np.load("ids.npy"), allow=np.load("allowed.npy"), oversample=1, first="estimate"
    )
    *found, last = run("search", "other", "queries.npy", "-m", "model", *given, "--explain").objects
    require_same(found, allowed)
    first = last["explain"]["stages"]["estimate of all rows"]
    assert first["rows_in_a_query"] == 50  # all are there that may be found


def require_wrong_usage(done: Outcome, option: str, *parts: str) -> None:
    assert done.code == 2
    for part in (option, *parts):
        assert part in " ".join(done.err.split())


def test_options_that_contradict_each_other(run: Run) -> None:
    np.savez("vectors.npz", np.load("vectors.npy"))
    for options, option, says in (
        (("--stage", "exact"), "--stage", "exact needs --vectors"),
        (("--stage", "estimate"), "--stage", "estimate needs --corrections"),
        (
            ("--stage", "codes", *EXACT),
            "--vectors",
            "means nothing for --stage codes, which counts symbols of codes and reads no vectors",
        ),
        (("--stage", "codes", *ESTIMATE), "--corrections", "means nothing for --stage codes"),
        (("--oversample", "3"), "--oversample", "means nothing for --stage codes"),
        (("--metric", "ip"), "--metric", "means nothing for --stage codes"),
        (("--ids", "ids.npy"), "--ids", "means nothing for --stage codes"),
        (("--stage", "exat", *EXACT), "--stage", "Did you mean 'exact'?"),
        ((*EXACT, "--metric", "l1"), "--metric", "'l1' is not one of l2, cosine, ip"),
        (("--radius", "3", *EXACT), "--vectors", "means nothing with --radius"),
        (("--radius", "3", "--stage", "exact"), "--stage", "means nothing with --radius"),
        (("--radius", "3", *ESTIMATE), "--corrections", "means nothing with --radius"),
        (("--radius", "3", "--oversample", "2"), "--oversample", "means nothing with --radius"),
        ((*EXACT, "--oversample", "0"), "--oversample", "Invalid value"),
        (("--first", "estimate"), "--first", "estimate needs --corrections"),
        (("--first", "estimate", "--stage", "codes"), "--first", "means nothing for --stage codes"),
        (("--first", "estimate", *EXACT), "--first", "estimate needs --corrections"),
        (("--first", "exact", *EXACT), "--first", "'exact' is not one of codes, estimate"),
        (("--radius", "3", "--first", "codes"), "--first", "means nothing with --radius"),
        (
            ("--vectors", "vectors.npz", "-o", "vectors.npz"),
            "--out",
            "is an input and would be replaced",
        ),
    ):
        require_wrong_usage(run(*ASK, *options), option, says)


def test_better_distances_need_vectors_as_queries(run: Run) -> None:
    require_wrong_usage(
        run("search", "index", "codes", *EXACT), "--model", "queries must be vectors, not codes"
    )


def test_encode_refuses_places_and_metrics(run: Run) -> None:
    for options, option, says in (
        (("--metric", "ip"), "--metric", "means nothing without --corrections"),
        (("--corrections", "c", "--metric", "l3"), "--metric", "is not one of l2, cosine, ip"),
        (
            ("--corrections", "c.npy"),
            "--corrections",
            "c.npy must not end in .npy: what is written is a bitkin file",
        ),
        (("--corrections", "model"), "--corrections", "model is an input and would be replaced"),
        (("--corrections", "out"), "--corrections", "out is also given to --out"),
    ):
        require_wrong_usage(
            run("encode", "model", "vectors.npy", "-o", "out", *options), option, says
        )
    assert not Path("out").exists()


def test_a_model_whose_codes_cannot_be_scored_says_so_before_anything_is_written(run: Run) -> None:
    assert run("fit", "vectors.npy", "-o", "wta", "--method", "wta").code == 0
    done = run("encode", "wta", "vectors.npy", "-o", "c", "--corrections", "d")
    require_wrong_usage(done, "--corrections", "means nothing for wta, a WTAHash")
    assert not Path("c").exists()
    assert not Path("d").exists()
    assert run("encode", "wta", "vectors.npy", "-o", "c").code == 0
    assert run("index", "c", "-o", "i").code == 0
    [line, *_] = run(
        "search", "i", "queries.npy", "-m", "wta", *EXACT, "--oversample", 100, "--json"
    ).objects
    assert line["ids"] == truth(10, oversample=100).ids[0].tolist()


def test_an_index_of_every_kind_is_built_and_searched(run: Run) -> None:
    assert run("index", "codes", "-o", "flat", "--kind", "flat").code == 0
    assert Path("flat").read_bytes() == Path("index").read_bytes()
    assert run("index", "codes", "-o", "multi", "--kind", "multi").code == 0
    assert isinstance(bitkin.load("multi"), bitkin.MultiIndex)
    for options in ((), EXACT, (*EXACT, *ESTIMATE), ("--radius", 22)):
        mine = run("search", "multi", *ASK[2:], *options, "--json")
        assert mine.code == 0
        assert mine.out == run(*ASK, *options, "--json").out
    settings = ("--band-bits", 8, "--probes", 1, "--budget", 150)
    assert run("index", "codes", "-o", "bands", "--kind", "bands", *settings).code == 0
    bands = bitkin.load("bands")
    assert isinstance(bands, bitkin.BandIndex)
    assert (bands.band_bits, bands.probes, bands.budget, bands.score) == (8, 1, 150, "distance")
    hits = bands.search(bitkin.load("model").encode(np.load("queries.npy")), 10)
    *found, explained = run("search", "bands", *ASK[2:], "--explain", "--json").objects
    require_same(found, hits)
    assert explained["explain"]["index"] == "BandIndex"
    few = ("--n-cells", 10, "--probes", 4)
    assert run("index", "codes", "-o", "cells", "--kind", "cells", *few).code == 0
    cells = bitkin.load("cells")
    assert isinstance(cells, bitkin.CellIndex)
    assert (cells.n_cells, cells.probes) == (10, 4)
    *found, explained = run("search", "cells", *ASK[2:], "--explain", "--json").objects
    require_same(found, cells.search(bitkin.load("model").encode(np.load("queries.npy")), 10))
    assert explained["explain"]["index"] == "CellIndex"
    compared = cells.count_candidates(bitkin.load("model").encode(np.load("queries.npy"))).mean()
    rows_in = explained["explain"]["stages"]["codes"]["rows_in_a_query"]
    assert rows_in == pytest.approx(compared, abs=0.1)
    assert rows_in < 203
    (about,) = run("info", "cells", "--json").objects
    assert about.items() >= {"class": "CellIndex", "n_cells": 10, "probes": 4}.items()


def test_the_kind_of_an_index_and_what_goes_with_it(run: Run) -> None:
    for options, option, says in (
        (("--kind", "flatt"), "--kind", "Did you mean 'flat'?"),
        (("--band-bits", "8"), "--band-bits", "means nothing without --kind bands"),
        (("--kind", "multi", "--probes", "8"), "--probes", "means nothing without --kind bands or"),
        (("--kind", "bands", "--n-cells", "8"), "--n-cells", "means nothing without --kind cells"),
        (("--kind", "cells", "--band-bits", "8"), "--band-bits", "without --kind bands"),
        (("--kind", "cells", "--probes", "0"), "--probes", "must be at least 1"),
        (("--kind", "cells", "--n-cells", "0"), "--n-cells", "Invalid value"),
        (("--kind", "bands", "--band-bits", "0"), "--band-bits", "Invalid value"),
        (("--budget", "8"), "--budget", "means nothing without --kind bands"),
        (("--score", "hits"), "--score", "means nothing without --kind bands"),
        (("--kind", "bands", "--score", "hit"), "--score", "Did you mean 'hits'?"),
    ):
        require_wrong_usage(run("index", "codes", "-o", "other", *options), option, says)
    assert run("index", "codes", "-o", "hits", "--kind", "bands", "--score", "hits").code == 0
    assert bitkin.load("hits").score == "hits"
    assert run("index", "codes", "-o", "other", "--kind", "bands", "--band-bits", 65).code == 1
    assert not Path("other").exists()


def test_the_table_says_what_its_distances_are(run: Run) -> None:
    for options, name in (
        ((), "symbols of the codes that differ"),
        (ESTIMATE, "l2 as estimated from codes"),
        ((*EXACT, "--metric", "ip"), "exact ip"),
    ):
        assert f"distance: {name}\n" in run(*ASK, *options).out
