"""`bitkin.compare`: every sensible method × bits × stage on a sample of your rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bitkin.evaluate.comparing.comparison import Comparison
from bitkin.evaluate.comparing.report import Report
from bitkin.evaluate.comparing.running import Progress
from bitkin.evaluate.comparing.settings import BITS, ComparisonSettings
from bitkin.evaluate.trials.trial import QUERIES, SAMPLE_ROWS


def compare(
    X: Any,
    *,
    methods: Any = None,
    bits: int | Sequence[int] = BITS,
    k: int = 10,
    metric: str = "l2",
    queries: Any = None,
    stages: Any = None,
    vectors: Any = None,
    baselines: Any = "auto",
    n_queries: int = QUERIES,
    sample_rows: int = SAMPLE_ROWS,
    random_state: int | None = 0,
    threads: int | None = None,
    time_limit: float | None = None,
    picture_shape: tuple[int, ...] | None = None,
    texts: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Report:
    """Measure on a sample of your rows what every method finds at every size, and what it costs.

    Every method is fitted on a sample. Queries are held out, and their true neighbours found among
    all rows; where those stand in the order of a code says which recall a search of all rows has,
    not of the sample alone. What fails is a row of the report that says why.

    Parameters
    ----------
    X : array, SciPy sparse matrix, data frame, path, list of paths or VectorSource
        All rows. CSR rows have methods of their own.
    methods : names and hashers, optional
        What to try: names such as "pca × itq" (an x will do), the beginning of several such as
        "pca", or hashers that are not fitted. By default, everything that suits the rows.
    bits : int or sequence of int, default (32, 64, 128, 256)
        Sizes of codes.
    k : int, default 10
        Neighbours that a query looks for.
    metric : {"l2", "cosine", "ip", "jaccard"}, default "l2"
        By which they are the nearest; "jaccard", of CSR rows as sets, by codes alone.
    queries : as X, optional
        Queries as yours will be. By default rows of X, which are held out.
    stages : {"codes", "estimate", "exact"} or several, optional
        Last stages of a search; by default all that are possible.
    vectors : {"float32", "float16", "int8", "csr"} or several, optional
        How vectors are kept for the exact stage; by default every way that is possible.
    baselines : "auto", bool or names, default "auto"
        Indexes of FAISS beside ours: product quantizers (PQ, OPQ), RaBitQ, scalar quantizers and
        HNSW. "auto" takes them where faiss is installed and rows are dense.
    n_queries, sample_rows : int
        At most so many queries, and rows to learn from: 1,000 and 20,000.
    random_state : int or None, default 0
        Seed of the draws and of the methods.
    threads : int, optional
        Methods measured at a time; by default as many as bitkin has threads. Recall does not depend
        on it.
    time_limit : float, optional
        Seconds after which nothing new is begun; what is not measured by then says so. Ctrl-C ends
        the call like any other, without a report.
    picture_shape : (height, width) or (height, width, 3), optional
        How the values of a row lie in a picture, for the hardest queries in the HTML report.
    texts : sequence of str, optional
        What the rows of X stand for, one text per row, likewise.
    progress : callable, optional
        Called with how many methods are done, and how many there are.

    Returns
    -------
    Report

    Notes
    -----
    Times are CPU times of one thread on the sample. Bytes per vector are those of everything that a
    search needs, ids included, without the model.

    Examples
    --------
    >>> import numpy as np, bitkin
    >>> X = np.random.default_rng(0).standard_normal((500, 16)).astype(np.float32)
    >>> report = bitkin.compare(X, methods=["pca", "sign"], bits=(8, 16), baselines=False)
    >>> sorted({one.method for one in report.measurements})[:2]
    ['pca × isohash', 'pca × itq']
    >>> report.best(recall=0.99).stage
    'exact'
    """
    settings = ComparisonSettings(
        methods=methods,
        bits=bits,
        k=k,
        metric=metric,
        stages=stages,
        vectors=vectors,
        baselines=baselines,
        n_queries=n_queries,
        sample_rows=sample_rows,
        random_state=random_state,
        threads=threads,
        time_limit=time_limit,
        picture_shape=picture_shape,
        texts=texts,
        own_queries=queries is not None,
    )
    return Comparison(X, queries, settings).run(progress)
