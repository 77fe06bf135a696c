"""One row is encoded by a kernel of its own, and becomes what it becomes in a batch."""

from __future__ import annotations

import numpy as np
import pytest

from bitkin.errors import InvalidInputError
from bitkin.hashers.projection.sign_model import SignModel
from bitkin.rescoring.estimate import Scorer


@pytest.mark.parametrize("random", [False, True])
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("metric", ["l2", "cosine", "ip"])
@pytest.mark.parametrize(("n_features", "n_bits"), [(1, 1), (3, 65), (130, 64)])
def test_one_row_is_encoded_as_in_a_batch(
    n_features: int, n_bits: int, metric: str, normalize: bool, random: bool
) -> None:
    rng = np.random.default_rng(n_bits)
    components = rng.standard_normal((n_features, n_bits)).astype(np.float32)
    mean = rng.standard_normal(n_features) if n_bits > 1 else None
    scorer = Scorer(SignModel(components, mean, normalize, random=random), metric)
    rows = rng.standard_normal((8, n_features)).astype(np.float32)
    rows[1] = 0
    rows[2:6] *= np.array(
        [[1e-30], [1e-21], [1e-15], [1e15]], dtype=np.float32
    )  # squares beyond float32, too
    codes, corrections = scorer.encode(rows, "X")
    for row in range(8):
        some, numbers = scorer.encode(rows[row : row + 1], "X")
        assert some == codes[row : row + 1]
        np.testing.assert_allclose(numbers[0], corrections[row], rtol=2e-5)


def test_one_row_beyond_float32_is_refused_as_in_a_batch() -> None:
    scorer = Scorer(SignModel(np.eye(3, 2, dtype=np.float32), None, False), "l2")
    for value, words in [(1e30, "beyond float32"), (np.inf, "X: infinity at row 0, column 1")]:
        with pytest.raises(InvalidInputError, match=words):
            scorer.encode(np.array([[1, value, 1]], dtype=np.float32), "X", 4)
