"""Arrays as JSON holds them, every bit of every number kept."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["array_of", "plain"]


def plain(array: NDArray[Any]) -> dict[str, Any]:
    """Return kind, shape and bytes of an array of numbers or truths."""
    data = b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")
    return {"kind": array.dtype.str, "shape": list(array.shape), "data": data}


def array_of(plain: Mapping[str, Any]) -> NDArray[Any]:
    """Return the array that `plain` wrote down.

    Raises
    ------
    ValueError, KeyError
        If it is none.
    """
    kind = np.dtype(plain["kind"])
    if kind.kind not in "biuf":
        raise ValueError(f"An array of kind {plain['kind']!r} holds no numbers.")
    data = b64decode(plain["data"], validate=True)
    return np.frombuffer(data, dtype=kind).reshape(plain["shape"]).copy()
