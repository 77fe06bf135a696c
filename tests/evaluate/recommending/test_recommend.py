"""`bitkin.recommend`: what it answers, and that it keeps what it promises."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import scipy.sparse

import bitkin
from bitkin.errors import InvalidInputError, TargetNotReachedError
from bitkin.evaluate.recommending import checking
from bitkin.evaluate.recommending.candidates import list_codes
from bitkin.evaluate.recommending.contest import bytes_at
from bitkin.evaluate.recommending.run import RecommendInterrupt
from bitkin.evaluate.recommending.settings import RecommendSettings, queries_to_check
from bitkin.evaluate.recommending.ways import TriedCode
from bitkin.evaluate.trials.measuring import FittedMethod
from bitkin.evaluate.trials.trial import draw_trial

QUICK: dict[str, Any] = {"methods": ["pca × random", "nystrom"], "bits": (32, 64, 128)}


def make_rows(n: int, d: int = 32, seed: int = 0) -> npt.NDArray[np.float32]:
    """Rows whose columns matter less and less."""
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((n, d)) * np.linspace(3, 0.3, d)).astype(np.float32)


def true_ids(X: Any, queries: Any, k: int, metric: str) -> npt.NDArray[np.int64]:
    """The k nearest rows by plain NumPy."""
    a, b = np.asarray(queries, np.float64), np.asarray(X, np.float64)
    if metric == "l2":
        distances = (b**2).sum(axis=1) - 2.0 * a @ b.T
    else:
        distances = -(a @ b.T) / np.linalg.norm(b, axis=1)
    return np.argsort(distances, axis=1, kind="stable")[:, :k]


def recall_of(found: Any, true: Any) -> float:
    """Mean share of the true ids that were found."""
    return float(np.mean([len(set(f) & set(t)) / len(t) for f, t in zip(found, true, strict=True)]))


@pytest.fixture(scope="module")
def rows() -> npt.NDArray[np.float32]:
    """2,000 rows to choose for."""
    return make_rows(2000)


@pytest.fixture(scope="module")
def found(rows: npt.NDArray[np.float32]) -> bitkin.Recommendation:
    """What is recommended for them, by all methods."""
    return bitkin.recommend(rows, recall=0.9)


def test_it_reaches_the_recall_on_queries_that_it_never_saw(
    rows: npt.NDArray[np.float32], found: bitkin.Recommendation
) -> None:
    fresh = make_rows(400, seed=1)
    collection = found.build(rows)
    recall = recall_of(collection.search(fresh, 10).ids, true_ids(rows, fresh, 10, "l2"))
    low, high = found.interval
    assert found.recall >= 0.9
    assert low <= found.recall <= high
    assert low <= recall <= high


def test_build_gives_what_was_promised(
    rows: npt.NDArray[np.float32], found: bitkin.Recommendation
) -> None:
    collection = found.build(rows)
    assert len(collection) == len(rows)
    assert collection.stage == found.stage
    assert collection.hasher.fingerprint_ == found.hasher.fingerprint_
    # codes, corrections and ids come in blocks of 512, of which the sample fills the last one less
    spare = 512 * found.chosen.n_bits / 8 + 512 * (8 + 8)
    taken = collection.nbytes / len(rows)
    assert found.bytes_per_vector - spare / 1600 <= taken <= found.bytes_per_vector
    same = bitkin.Collection.create(None, found.hasher, **found.settings)
    same.add(rows)
    np.testing.assert_array_equal(
        same.search(rows[:20], 10).ids, collection.search(rows[:20], 10).ids
    )


def test_the_interval_is_no_narrower_than_chance_among_the_queries_that_checked(
    found: bitkin.Recommendation,
) -> None:
    # 267 of the 400 rows that are held out; recalls of 10 neighbours spread by at least 0.03
    low, high = found.interval
    assert found.facts["queries that checked"] == 267
    assert 2 * 1.96 * np.sqrt(2) * 0.03 / np.sqrt(267) < high - low < 0.05


def test_a_recommendation_says_all_of_itself(found: bitkin.Recommendation) -> None:
    text = str(found)
    assert text.startswith("take ")
    assert "recall@10" in text
    assert f"{found.bytes_per_vector:,.0f} bytes per vector" in text
    assert "Runner-up" in found.reason
    assert found.runner_up is not None
    assert found.runner_up.method != found.chosen.method
    assert found.command == "bitkin.recommend(X, recall=0.9)"
    assert found.complete
    plain = found.to_dict()
    assert plain["bits"] == found.hasher.spec_.n_bits
    assert plain["interval"] == pytest.approx(found.interval, abs=1e-6)
    assert (plain["stage"], plain["oversample"]) == (found.stage, found.oversample)


def test_it_is_written_as_a_page_and_as_markdown(
    found: bitkin.Recommendation, tmp_path: Any
) -> None:
    page = found.to_html(tmp_path / "page.html").read_text()
    assert found.chosen.name.split(",")[0] in page
    written = found.to_markdown(tmp_path / "page.md")
    assert "## Recommendation" in written.read_text()


def test_no_way_that_was_measured_reaches_the_recall_in_clearly_fewer_bytes(
    found: bitkin.Recommendation,
) -> None:
    for one in found.measurements:
        cheaper = one.bytes_per_vector * 1.05 < found.bytes_per_vector
        assert not cheaper or one.recalls.mean(axis=0)[: len(one.oversamples)].max() < 0.91


def test_the_same_rows_and_seed_give_the_same_answer_on_any_number_of_threads(
    rows: npt.NDArray[np.float32],
) -> None:
    answers = []
    before = bitkin.get_threads()
    try:
        for threads in (1, 2):
            bitkin.set_threads(threads)
            one = bitkin.recommend(rows, recall=0.8, random_state=7, **QUICK)
            answers.append((one.chosen.name, one.settings, one.recall, one.interval))
    finally:
        bitkin.set_threads(before)
    assert answers[0] == answers[1]


def test_less_recall_takes_fewer_bytes(
    rows: npt.NDArray[np.float32], found: bitkin.Recommendation
) -> None:
    less = bitkin.recommend(rows, recall=0.3, **QUICK)
    assert less.vectors is None
    assert less.bytes_per_vector < 0.8 * found.bytes_per_vector
    assert "no vectors are kept" in less.reason


def test_max_bytes_holds(rows: npt.NDArray[np.float32]) -> None:
    one = bitkin.recommend(rows, recall=0.3, max_bytes=33, **QUICK)
    assert one.bytes_per_vector <= 33
    with pytest.raises(TargetNotReachedError, match=r"recall=0\.95 .* in 33 bytes") as caught:
        bitkin.recommend(rows, max_bytes=33, **QUICK)
    best = caught.value.best
    assert best.bytes_per_vector <= 33
    assert not best.reached
    assert "Nothing reached a recall of 0.95 within 33 bytes" in best.reason
    assert len(best.build(rows)) == len(rows)


def test_bytes_that_no_code_fits_in_are_told(rows: npt.NDArray[np.float32]) -> None:
    with pytest.raises(TargetNotReachedError, match="max_bytes=9 is less than any code") as caught:
        bitkin.recommend(rows, max_bytes=9, **QUICK)
    assert caught.value.best is None


def test_a_stream_gets_hashers_that_follow_it_or_never_learn(
    rows: npt.NDArray[np.float32],
) -> None:
    one = bitkin.recommend(rows, recall=0.7, streaming=True, bits=(16, 32))
    methods = {measured.method for measured in one.measurements}
    assert not any(name.startswith(("pca", "nystrom")) for name in methods)
    collection = one.build(rows)
    assert len(collection) == len(rows)
    with pytest.raises(InvalidInputError, match="methods must follow a stream"):
        bitkin.recommend(rows, streaming=True, methods="nystrom")


def test_own_queries_are_asked_and_no_row_is_held_out(rows: npt.NDArray[np.float32]) -> None:
    far = make_rows(300, seed=2) + 4.0
    one = bitkin.recommend(rows, recall=0.8, queries=far, **QUICK)
    assert one.facts["held out"] is False
    assert one.facts["queries that chose"] + one.facts["queries that checked"] == 300
    # those that checked are known, so their recall can be computed again in what is built
    recall = recall_of(one.build(rows).search(far, 10).ids, true_ids(rows, far, 10, "l2"))
    assert one.interval[0] <= recall <= one.interval[1]


@pytest.mark.parametrize("metric", ["cosine", "ip"])
def test_other_metrics_are_measured(rows: npt.NDArray[np.float32], metric: str) -> None:
    one = bitkin.recommend(rows, recall=0.8, metric=metric, **QUICK)
    assert one.metric == one.build(rows[:5]).metric == metric
    if metric == "cosine":
        fresh = make_rows(300, seed=3)
        ids = one.build(rows).search(fresh, 10).ids
        recall = recall_of(ids, true_ids(rows, fresh, 10, metric))
        assert one.interval[0] - 0.01 <= recall <= one.interval[1] + 0.01


def test_sparse_rows_keep_csr() -> None:
    rng = np.random.default_rng(0)
    bags = scipy.sparse.random(1500, 400, density=0.03, format="csr", random_state=rng)
    bags = bags.astype(np.float32)
    methods = ["nystrom", "minhash", "pca × random"]
    one = bitkin.recommend(bags, recall=0.5, metric="cosine", methods=methods, bits=(64, 128))
    assert one.reached
    assert one.vectors in ("csr", None)
    assert len(one.build(bags)) == 1500


def test_wide_sparse_rows_take_no_model_larger_than_can_be_learned_quickly() -> None:
    bags = scipy.sparse.random(200, 100_000, density=1e-3, format="csr", random_state=0)
    trial = draw_trial(bags.astype(np.float32), metric="cosine")
    codes = list_codes(trial, RecommendSettings(metric="cosine"))
    assert max(code.n_bits for code in codes["pca × itq"]) == 128
    assert "opast" not in codes
    assert max(code.n_bits for code in codes["minhash, 8-bit"]) > 256
    named = list_codes(trial, RecommendSettings(metric="cosine", methods=["pca", "opast"]))
    assert max(code.n_bits for some in named.values() for code in some) == 128
    asked_for = RecommendSettings(metric="cosine", methods="pca × random", bits=1024)
    assert [code.n_bits for code in list_codes(trial, asked_for)["pca × random"]] == [1024]
    own = RecommendSettings(metric="cosine", methods=bitkin.ProjectionHash(512))
    assert [code.n_bits for [code] in list_codes(trial, own).values()] == [512]
    wider = draw_trial(scipy.sparse.csr_matrix(([1.0], ([0], [0])), (9, 10**6)), metric="cosine")
    assert [c.n_bits for c in list_codes(wider, RecommendSettings())["nystrom"]] == [32]


def test_projections_that_follow_every_row_are_for_streams_or_asked_for() -> None:
    trial = draw_trial(make_rows(300, 700))
    assert "opast" not in list_codes(trial, RecommendSettings())
    assert "opast" in list_codes(trial, RecommendSettings(methods="opast"))
    streamed = list_codes(trial, RecommendSettings(streaming=True))["opast"]
    assert max(code.n_bits for code in streamed) == 512


def test_where_fresh_queries_find_less_a_little_more_is_asked_for_not_everything() -> None:
    # 20 rows of a cluster are left where 25 are searched: a shortlist of 20 looks better than it is
    rng = np.random.default_rng(0)
    centers = rng.standard_normal((80, 64), dtype=np.float32)
    X = centers[rng.integers(0, 80, 2000)] + 0.3 * rng.standard_normal((2000, 64), np.float32)
    one = bitkin.recommend(X, recall=0.95, methods="pca × random", bits=64)
    assert one.recall >= 0.95
    assert one.vectors == "int8"
    assert 2 < one.oversample < 20


@pytest.mark.parametrize("n", [10, 11, 17, 63])
def test_few_rows_are_enough(n: int) -> None:
    X = make_rows(n, 7)
    try:
        one = bitkin.recommend(X, recall=0.5, k=3, methods="nystrom", bits=8)
    except TargetNotReachedError as error:
        one = error.best
    assert len(one.build(X)) == n
    assert 0.0 <= one.interval[0] <= one.interval[1] <= 1.0
    assert "Give more rows, or queries of your own" in one.reason


def test_queries_that_are_alike_by_chance_leave_doubt() -> None:
    two = checking.Checked(np.array([0.75, 0.75]), 1.0, 10, on_all=True)
    assert two.interval == pytest.approx((0.75 * np.sqrt(0.025), 1 - 0.25 * np.sqrt(0.025)))
    low, high = checking.Checked(np.tile([0.9, 1.0], 500), 1.0, 10, on_all=True).interval
    # √2 · 1.96 · 0.05 / √1000 to either side
    assert (low, high) == pytest.approx((0.9456, 0.9544), abs=1e-3)


def test_more_neighbours_than_rows_are_all_rows() -> None:
    X = make_rows(40, 7)
    one = bitkin.recommend(X, recall=0.9, k=100, methods="nystrom", bits=8)
    assert one.recall == 1.0


def test_rows_of_zeros_and_copies_are_searched() -> None:
    X = make_rows(600, 8)
    X[::7] = 0.0
    X[1::7] = X[1]
    one = bitkin.recommend(X, recall=0.2, metric="cosine", methods="random", bits=(16, 32))
    assert one.reached


def test_plain_exact_search_is_named_where_it_is_as_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    for times, is_named in ((1e9, True), (0.0, False)):  # whatever the clock says
        monkeypatch.setattr("bitkin.evaluate.recommending.wording._AS_FAST", times)
        one = bitkin.recommend(make_rows(400, 8), recall=0.5, methods="nystrom", bits=16)
        assert ("Plain exact search of these 400 rows" in one.reason) == is_named


def test_a_collection_that_is_too_large_to_build_is_predicted_from_the_sample(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X = make_rows(4000)
    monkeypatch.setattr(checking, "MOST_BYTES", 0)
    one = bitkin.recommend(X, recall=0.8, sample_rows=1000, **QUICK)
    assert "on a sample of 1,000 of 4,000 rows, which predicts all" in one.reason
    fresh = make_rows(400, seed=4)
    recall = recall_of(one.build(X).search(fresh, 10).ids, true_ids(X, fresh, 10, "l2"))
    assert one.interval[0] - 0.01 <= recall <= one.interval[1] + 0.01


def test_the_answer_does_not_depend_on_which_code_is_measured_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copies = np.repeat(make_rows(150), 20, axis=0)  # all of which codes of any size find
    answers = []
    for step in (1, -1):

        def run_in_order(work: Any, pieces: Any, step: int = step) -> list[Any]:
            return [work(piece) for piece in list(pieces)[::step]][::step]

        monkeypatch.setattr("bitkin.threads.run", run_in_order)
        one = bitkin.recommend(copies, recall=0.9, methods="pca × random", bits=(33, 40, 48, 128))
        answers.append((one.chosen.name, [measured.name for measured in one.measurements]))
    assert answers[0] == answers[1]


def test_a_code_that_takes_as_many_words_as_a_longer_one_is_not_measured(
    rows: npt.NDArray[np.float32],
) -> None:
    one = bitkin.recommend(rows, recall=0.5, methods="pca × random", bits=(65, 96, 128))
    assert {measured.n_bits for measured in one.measurements} == {128}


@pytest.mark.filterwarnings("ignore:n_bits")
@pytest.mark.parametrize("method", ["pca × random", "wta"])
def test_the_bytes_of_a_code_are_known_from_one_of_another_size(
    rows: npt.NDArray[np.float32], method: str
) -> None:
    trial = draw_trial(rows, n_queries=20, sample_rows=3 * 512)  # whole blocks of codes
    codes = list_codes(trial, RecommendSettings(methods=method, bits=(32, 64, 96, 192, 384)))
    tried = [TriedCode.from_fitted(FittedMethod(trial, code), {}) for code in codes[method]]
    for known in tried:
        for other in tried:
            assert bytes_at(other.n_bits, known) == pytest.approx(other.code_bytes)


def test_a_check_of_several_ways_finds_the_truth_among_all_rows_once(
    rows: npt.NDArray[np.float32], monkeypatch: pytest.MonkeyPatch
) -> None:
    passes = []

    def count_passes(X: Any, *given: Any) -> Any:
        passes.append(X.shape[0])
        return bitkin.evaluate.nearest(X, *given)

    monkeypatch.setattr(checking, "nearest", count_passes)
    monkeypatch.setattr(checking.Check, "time_exact", lambda *_: 1.0)
    monkeypatch.setattr(checking.Checked, "recall", 0.1)  # so that all are refused
    with pytest.raises(TargetNotReachedError):
        bitkin.recommend(rows, recall=0.5, **QUICK)
    assert passes == [2000]


def test_the_time_limit_returns_the_best_so_far(rows: npt.NDArray[np.float32]) -> None:
    one = bitkin.recommend(rows, recall=0.3, time_limit=1e-9)
    assert not one.complete
    assert {measured.n_bits for measured in one.measurements} == {128}
    assert "best so far" in one.reason
    with pytest.raises(TargetNotReachedError, match="within the time limit") as caught:
        bitkin.recommend(rows, max_bytes=40, time_limit=1e-9)
    assert not caught.value.best.complete


@pytest.mark.parametrize("after", [1, 3])
def test_an_interrupt_has_the_best_so_far(rows: npt.NDArray[np.float32], after: int) -> None:
    told = []

    def stop(progress: bitkin.RecommendProgress) -> None:
        told.append(progress)
        if len(told) == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        bitkin.recommend(rows, recall=0.5, progress=stop, **QUICK)
    assert isinstance(caught.value, RecommendInterrupt)
    best = caught.value.best
    assert best is not None
    assert not best.complete
    assert len(best.build(rows)) == len(rows)


def test_an_interrupt_of_the_check_after_the_time_limit_has_the_best_so_far_too(
    rows: npt.NDArray[np.float32], monkeypatch: pytest.MonkeyPatch
) -> None:
    check, n_interrupts = checking.Check.run, 1
    called = []

    def stop(self: checking.Check, *given: Any) -> checking.Checked:
        called.append(given)
        if len(called) <= n_interrupts:
            raise KeyboardInterrupt
        return check(self, *given)

    monkeypatch.setattr(checking.Check, "run", stop)
    with pytest.raises(KeyboardInterrupt) as caught:
        bitkin.recommend(rows, recall=0.5, time_limit=1e-9, **QUICK)
    assert isinstance(caught.value, RecommendInterrupt)
    assert caught.value.best is not None
    called.clear()
    n_interrupts = 2
    with pytest.raises(KeyboardInterrupt) as caught:
        bitkin.recommend(rows, recall=0.5, **QUICK)
    assert isinstance(caught.value, RecommendInterrupt)
    assert caught.value.best is None


def test_vectors_are_not_kept_in_a_type_that_one_far_row_does_not_fit() -> None:
    far = make_rows(3000)
    drawn = draw_trial(far, n_queries=600, sample_rows=1000)
    used = (drawn.row_numbers, drawn.near_numbers, drawn.query_numbers)
    row = int(np.setdiff1d(np.arange(3000), np.concatenate(used))[0])  # which no method sees
    far[row] = 0.0
    far[row, 3] = 1e5
    given: dict[str, Any] = {"methods": "pca × random", "bits": (32, 64, 128)}
    one = bitkin.recommend(far, recall=0.995, n_queries=600, sample_rows=1000, **given)
    assert one.recall >= 0.995
    assert one.vectors == "float32"
    assert len(one.build(far)) == 3000
    assert "float16" not in {measured.vectors for measured in one.measurements}
    assert any("float16" in note and f"row {row}, column 3" in note for note in one.notes)


def test_an_interrupt_before_anything_was_measured_has_nothing(
    rows: npt.NDArray[np.float32], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("bitkin.evaluate.recommending.run.draw_trial", stop)
    with pytest.raises(KeyboardInterrupt) as caught:
        bitkin.recommend(rows)
    assert isinstance(caught.value, RecommendInterrupt)
    assert caught.value.best is None


def test_progress_never_goes_back_and_ends_with_all(rows: npt.NDArray[np.float32]) -> None:
    told: list[bitkin.RecommendProgress] = []
    bitkin.recommend(rows, recall=0.8, progress=told.append, **QUICK)
    shares = [progress.share for progress in told]
    assert shares == sorted(shares)
    assert told[-1] == (1.0, 0.0, "done")
    assert all(progress.seconds_left is not None for progress in told)
    assert told[0].doing == "pca × random, 128 bits"


def test_a_method_that_fails_is_named_and_the_others_are_measured(
    rows: npt.NDArray[np.float32], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise RuntimeError("no such luck")

    monkeypatch.setattr(bitkin.projections.PCA, "fit", refuse, raising=False)
    from bitkin.evaluate.trials.methods import CodeMethod

    fit = CodeMethod.fit

    def fit_others(method: CodeMethod, given: Any) -> Any:
        return refuse() if method.name.startswith("pca") else fit(method, given)

    monkeypatch.setattr(CodeMethod, "fit", fit_others)
    one = bitkin.recommend(rows, recall=0.7, **QUICK)
    assert one.chosen.method == "nystrom"
    assert "no such luck" in {measured.error for measured in one.measurements}


@pytest.mark.parametrize(("recall", "k"), [(0.95, 10), (0.5, 10), (0.95, 1), (0.99, 100)])
def test_enough_queries_check_for_an_interval_of_four_hundredths(recall: float, k: int) -> None:
    n = queries_to_check(recall, k)
    rng = np.random.default_rng(0)
    # queries that differ as much as those of real sets: betas around the mean
    values = rng.binomial(k, rng.beta(3 * recall, 3 * (1 - recall), n)) / k
    half = 1.96 * np.sqrt(2) * values.std() / np.sqrt(n)
    assert 1000 <= n <= 4000
    assert 2 * half < 0.055
