"""`diagnose`: look at vectors before a code is chosen."""

from __future__ import annotations

from typing import Any

import numpy as np

from bitkin import interrupts
from bitkin.checks import one_of, whole_number
from bitkin.choices import METRICS
from bitkin.evaluate.diagnosis import relations, row_kinds, space
from bitkin.evaluate.diagnosis.diagnosis import Diagnosis
from bitkin.evaluate.diagnosis.finding import Finding
from bitkin.evaluate.diagnosis.neighbors import find_near_rows, survey_hubs
from bitkin.evaluate.diagnosis.sample import DataSample
from bitkin.evaluate.diagnosis.survey import DataSurvey
from bitkin.io.vectors import VectorSource, open_vectors
from bitkin.kernels.blocks import read_only
from bitkin.randomness import resolve_seed

SAMPLE_ROWS = 20_000
_SAMPLED_NUMBERS = 50_000_000  # of dense rows, in their own type
_FEWEST_SAMPLED = 1_000


def diagnose(
    X: Any, *, metric: str = "l2", sample_rows: int = SAMPLE_ROWS, random_state: Any = 0
) -> Diagnosis:
    """Tell what vectors look like to a hasher, and what to set because of it.

    All rows are read once for what is cheap (columns, lengths, zeros, copies, the order of the
    file); directions and neighbours are measured on a random sample, the neighbours of 500 of its
    rows among all rows where those are not too many. Memory does not grow with the rows.

    Parameters
    ----------
    X : array, SciPy sparse matrix, data frame, path, list of paths, iterator or VectorSource
        The rows. An iterator is read once, and all neighbours are looked for in the sample.
    metric : {"l2", "cosine", "ip"}
        By which rows will be searched: what to set depends on it.
    sample_rows : int
        Rows of the sample, at least 100; fewer where they are very long.
    random_state : int or None
        The seed of the sample.

    Returns
    -------
    Diagnosis
        Findings, each "fine", "notice" or "warning"; see docs/diagnosis.md for every one.

    Examples
    --------
    >>> import numpy as np, bitkin
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((2000, 32)) * rng.uniform(0.2, 5, (2000, 1))
    >>> diagnosis = bitkin.diagnose(X, metric="cosine")
    >>> [(found.name, found.setting) for found in diagnosis.warnings]
    [('lengths', 'normalize=True')]
    >>> diagnosis.finding("dimension").values["directions_for_90_percent"]
    28
    """
    metric = one_of(metric, "metric", METRICS)
    sample_rows = whole_number(sample_rows, "sample_rows", low=100)
    seed = resolve_seed(random_state)
    source = open_vectors(X, name="X")
    if not source.sparse:
        most = max(_FEWEST_SAMPLED, _SAMPLED_NUMBERS // source.shape[1])
        sample_rows = min(sample_rows, most)
    survey = DataSurvey(source, sample_rows, seed)
    sampled = DataSample.from_survey(survey, seed)
    findings = (
        space.count_rows(survey),
        *_look_at_space(survey, sampled, metric),
        *_look_at_rows(survey, sampled, metric),
        *_look_at_relations(source, survey, sampled, metric),
    )
    return Diagnosis(
        findings=findings,
        spectrum=read_only(sampled.spectrum.shares),
        n_rows=survey.n_rows,
        n_features=survey.n_features,
        metric=metric,
        n_sampled=sampled.rows.shape[0],
    )


def _look_at_space(survey: DataSurvey, sampled: DataSample, metric: str) -> tuple[Finding, ...]:
    interrupts.check()
    return (
        space.measure_dimension(sampled, survey.n_features),
        space.measure_mean(survey, metric),
        space.find_collapsed_columns(survey),
        space.find_dominating_columns(survey, sampled),
    )


def _look_at_rows(survey: DataSurvey, sampled: DataSample, metric: str) -> tuple[Finding, ...]:
    return (
        row_kinds.measure_lengths(sampled, metric),
        row_kinds.find_far_rows(survey, sampled, metric),
        row_kinds.count_zero_rows(survey, metric),
        row_kinds.measure_sparsity(survey),
        row_kinds.measure_windows(survey, metric),
        row_kinds.describe_values(survey),
    )


def _look_at_relations(
    source: VectorSource, survey: DataSurvey, sampled: DataSample, metric: str
) -> tuple[Finding, ...]:
    interrupts.check()
    rows, seed = sampled.rows, sampled.seed
    near = find_near_rows(source, rows, sampled.numbers, metric, seed)
    interrupts.check()
    hubs = survey_hubs(rows, sampled.spectrum.shares, metric, seed)
    directions = sampled.spectrum.participation
    typical = _typical_distance(sampled, metric)
    return (
        relations.count_copies(survey),
        relations.count_near_copies(near, typical, directions),
        relations.count_ties(near),
        relations.describe_hubs(hubs),
        relations.measure_order(survey, sampled),
    )


def _typical_distance(sampled: DataSample, metric: str) -> float:
    """Return the root of the mean squared distance of two rows; of cosine, about that of rows of
    length 1.
    """
    # E‖x − y‖² of two independent rows is twice the variance
    distance = float(np.sqrt(2 * sampled.spectrum.total))
    if metric == "cosine" and sampled.lengths.size:
        distance /= float(np.sqrt(np.mean(sampled.lengths**2)))
    return distance
