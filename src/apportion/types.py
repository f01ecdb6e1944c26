"""Arrays as annotations write them; for type checkers, as nothing is imported at run time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]
Bools = NDArray[np.bool_]
Int64s = NDArray[np.int64]
