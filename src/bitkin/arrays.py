"""What our arrays are called: the aliases that annotations everywhere use."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Ids: TypeAlias = npt.NDArray[np.int64]
Words: TypeAlias = npt.NDArray[np.uint64]
Flags: TypeAlias = npt.NDArray[np.bool_]
Floats: TypeAlias = npt.NDArray[np.float64]
FloatRows: TypeAlias = npt.NDArray[np.float32]
# A checked 2-D array or csr_array; SciPy has no types, so neither has their union.
Batch: TypeAlias = Any
