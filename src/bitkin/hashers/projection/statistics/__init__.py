"""What learners keep of the rows they saw: small, split-invariant, and mergeable.

Each statistic is fed by `update` and joined by `merge`, which is associative: rows may be read here
or on several machines, in any number of batches. Batches of one sequence of rows give the same
numbers to the last bit, however the sequence is cut; merged statistics agree with them up to
rounding in float64.
"""

from bitkin.hashers.projection.statistics.moments import RowMean, RowMoments
from bitkin.hashers.projection.statistics.row_sample import RowSample
from bitkin.hashers.projection.statistics.scatter_sketch import ScatterSketch

__all__ = ["RowMean", "RowMoments", "RowSample", "ScatterSketch"]
