"""`bitkin.recommend`: the cheapest configuration that reaches a recall, on your rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bitkin.evaluate.recommending.recommendation import Recommendation
from bitkin.evaluate.recommending.run import RecommendInterrupt, RecommendRun
from bitkin.evaluate.recommending.settings import RecommendSettings
from bitkin.evaluate.recommending.watch import RecommendProgress
from bitkin.evaluate.trials.trial import SAMPLE_ROWS


def recommend(
    X: Any,
    *,
    recall: float = 0.95,
    k: int = 10,
    max_bytes: float | None = None,
    metric: str = "l2",
    streaming: bool = False,
    queries: Any = None,
    bits: int | Sequence[int] | None = None,
    methods: Any = None,
    n_queries: int | None = None,
    sample_rows: int = SAMPLE_ROWS,
    time_limit: float | None = None,
    random_state: int | None = 0,
    progress: Callable[[RecommendProgress], object] | None = None,
) -> Recommendation:
    """Find the cheapest way to keep and search vectors that reaches a recall, on your rows.

    Cheapest is of fewest bytes per vector, everything counted that a search needs. Methods, sizes
    of codes, last stages, ways to keep vectors and oversamples are tried on a sample; most of them
    only as far as it takes to see that they cannot win. What is promised is then measured again in
    a collection of all rows, by queries that had no part in the choice; if they miss the recall,
    the next one is taken.

    Parameters
    ----------
    X : array, SciPy sparse matrix, data frame, path, list of paths or VectorSource
        All rows.
    recall : float, above 0 and up to 1, default 0.95
        Share of the true `k` nearest that a search must find.
    k : int, default 10
        Neighbours that a query looks for.
    max_bytes : float, optional
        Per vector, at most.
    metric : {"l2", "cosine", "ip"}, default "l2"
        By which they are the nearest.
    streaming : bool, default False
        Take only hashers that continue to learn from a stream (`partial_fit`), or never learn.
    queries : as X, optional
        Queries as yours will be. By default rows of X, which are held out.
    bits : int or sequence of int, optional
        Sizes of codes; by default 32 to 2,048, as far as a code is shorter than the vector in
        bytes. Rotations that are learned take part up to 512.
    methods : names and hashers, optional
        What to try, as `bitkin.compare` takes it; by default everything that suits the rows.
        Projections that follow a stream take part with `streaming`, or where they are named.
    n_queries : int, optional
        Queries in all, at most a fifth of the rows. A third chooses, at most 500, the others check;
        by default as many check as an interval of 0.04 needs, at least 1,000.
    sample_rows : int, default 20,000
        Rows to learn from, and to choose by.
    time_limit : float, optional
        Seconds after which nothing new is begun; then the best so far is returned, with
        `complete=False`.
    random_state : int or None, default 0
        Seed of the draws and of the methods. The same rows and seed give the same answer.
    progress : callable, optional
        Called with a `RecommendProgress`: the share that is done, seconds left, and what is done.

    Returns
    -------
    Recommendation

    Raises
    ------
    TargetNotReachedError
        Where nothing reaches the recall, or nothing within `max_bytes`. Its `best` is the
        recommendation that finds most.
    KeyboardInterrupt
        On Ctrl-C. It has a `best` too, None where nothing was measured yet.

    Notes
    -----
    Recall falls as rows grow. The true neighbours of the queries are found among all rows, and each
    row of the sample stands for several others, so what is measured on the sample is the recall to
    be expected on all rows; where a collection of all rows takes up to 512 MB it is built for the
    check, and nothing is left to be expected. A recommendation holds for about as many rows as X
    has.

    Examples
    --------
    >>> import numpy as np, bitkin
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((2000, 32)) * np.linspace(3, 0.3, 32)
    >>> best = bitkin.recommend(X.astype(np.float32), recall=0.9)
    >>> best.stage, best.vectors, best.recall >= 0.9
    ('exact', 'int8', True)
    >>> collection = best.build(X)
    >>> collection.search(X[:2], k=10).ids[:, 0].tolist()
    [0, 1]
    """
    settings = RecommendSettings(
        recall=recall,
        k=k,
        max_bytes=max_bytes,
        metric=metric,
        streaming=streaming,
        bits=bits,
        methods=methods,
        n_queries=n_queries,
        sample_rows=sample_rows,
        time_limit=time_limit,
        random_state=random_state,
        own_queries=queries is not None,
    )
    try:
        run = RecommendRun(X, queries, settings, progress)
    except KeyboardInterrupt:
        raise RecommendInterrupt(None) from None
    return run.run()
