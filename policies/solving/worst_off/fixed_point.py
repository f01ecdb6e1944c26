"""Numbers of 384 bits behind the point: arithmetic without the rounding errors of floats.

They are Python's whole numbers in numpy arrays, each worth ``number / 2**384``. A float from
2**-331 on is one of them as it is; what is smaller is cut off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.types import Floats

    Fixed: TypeAlias = NDArray[np.object_]

_BITS = 384
_MANTISSA = 53
ONE = 1 << _BITS
"""The number 1."""


def fixed(numbers: Floats) -> Fixed:
    """Turn floats into fixed-point numbers."""
    mantissa, exponent = np.frexp(np.asarray(numbers, dtype=float))
    whole: Any = np.ldexp(mantissa, _MANTISSA).astype(np.int64).astype(object)
    left: Any = exponent.astype(object) + (_BITS - _MANTISSA)
    return np.asarray((whole << np.maximum(left, 0)) >> np.maximum(-left, 0), dtype=object)


def floats(numbers: Fixed) -> Floats:
    """Turn fixed-point numbers into the nearest floats."""
    return np.asarray(numbers / ONE, dtype=float)


def product(one: Any, other: Any) -> Any:
    """Multiply numbers by numbers."""
    return (one * other) >> _BITS


def quotient(one: Any, other: Any) -> Any:
    """Divide numbers by numbers."""
    return (one << _BITS) // other
