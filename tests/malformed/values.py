"""Values and tables that a user may give by mistake."""

from __future__ import annotations

import datetime
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

_LASTING = (
    *(None, True, False, np.bool_(True), pd.NA, pd.NaT, object(), int, len, ...),
    *("", " ", "x", "no", "nan", "1", "1e3", "a,b", "\0", "=1+1", "v100=", "\n", "y" * 5000),
    *(b"x", bytearray(b"1"), 0, -1, 1, 2, 1.5, 2**70, -(10**30), 10**400, -(10**400)),
    *(np.nan, np.inf, -np.inf, 1e308, 5e-324, -0.0, 1e-9, 1j, np.complex128(2), np.int8(3)),
    *(Decimal("1.5"), Fraction(1, 3), Decimal("nan"), np.float32(0.5), np.uint64(2**64 - 1)),
    *(np.datetime64("2020-01-01"), pd.Timestamp(0), datetime.date(2020, 1, 1)),
    *(datetime.timedelta(1), np.timedelta64(3, "s"), "2020-01-01"),
)
VALUES: tuple[Callable[[], Any], ...] = (
    *((lambda value=value: value) for value in _LASTING),
    lambda: [],
    lambda: {},
    tuple,
    lambda: [None],
    lambda: [[1]],
    lambda: [1, "a"],
    lambda: {"a": 1},
    lambda: {None: None},
    lambda: {"v": [1]},
    lambda: {"v": {"w": 1}},
    lambda: {1, 2},
    lambda: range(3),
    lambda: (each for each in "ab"),
    lambda: np.array([]),
    lambda: np.array(3.0),
    lambda: np.array([True]),
    lambda: np.zeros((2, 2, 2)),
    lambda: np.array([["a"]], dtype=object),
    lambda: pd.Series(dtype=float),
    lambda: pd.Series([1.0], index=["a"]),
    lambda: pd.DataFrame(),
    lambda: pd.DataFrame({"a": [1]}),
    lambda: pd.Index(["a"]),
)
"""Makers of values of every kind, most of them wrong wherever they are put."""


def bad_value(rng: random.Random) -> Any:
    """Draw a value."""
    return rng.choice(VALUES)()


def bad_table(rng: random.Random, frame: pd.DataFrame) -> Any:
    """Draw a change of a table."""
    return rng.choice(_CHANGES)(rng, frame.copy())


def _cell(rng: random.Random, frame: pd.DataFrame) -> pd.DataFrame:
    column = rng.randrange(frame.shape[1])
    cells = frame.iloc[:, column].tolist()
    cells[rng.randrange(len(cells))] = bad_value(rng)
    changed = pd.Series(np.empty(len(cells), dtype=object), index=frame.index, dtype=object)
    for place, cell in enumerate(cells):
        changed.array[place] = cell
    columns = [frame.iloc[:, each] for each in range(frame.shape[1])]
    columns[column] = changed
    return pd.concat(columns, axis=1, keys=frame.columns.tolist())


def _index(rng: random.Random, frame: pd.DataFrame) -> pd.DataFrame:
    labels = frame.index.tolist()
    labels[rng.randrange(len(labels))] = bad_value(rng)
    objects = np.empty(len(labels), dtype=object)
    for place, each in enumerate(labels):
        objects[place] = each
    frame.index = pd.Index(objects, dtype=object)
    return frame


def _column(rng: random.Random, frame: pd.DataFrame) -> pd.DataFrame:
    labels = np.empty(frame.shape[1], dtype=object)
    for place, each in enumerate(frame.columns.tolist()):
        labels[place] = each
    labels[rng.randrange(len(labels))] = bad_value(rng)
    frame.columns = pd.Index(labels, dtype=object)
    return frame


def _kind(rng: random.Random, frame: pd.DataFrame) -> pd.DataFrame:
    kind: Any = rng.choice(
        ["str", "object", "category", "complex", "bool", "datetime64[ns]", "Int64"]
    )
    try:
        return frame.astype(kind)
    except (TypeError, ValueError):
        return frame.astype(object)


_CHANGES: tuple[Callable[[random.Random, pd.DataFrame], Any], ...] = (
    _cell,
    _cell,
    _index,
    _column,
    _kind,
    lambda rng, frame: frame.iloc[[0, 0]],
    lambda rng, frame: frame.iloc[:, [0, 0]],
    lambda rng, frame: frame.iloc[:0],
    lambda rng, frame: frame.iloc[:, :0],
    lambda rng, frame: frame.T,
    lambda rng, frame: frame.reset_index(),
    lambda rng, frame: (
        -frame if all(kind.kind in "iuf" for kind in frame.dtypes) else frame.iloc[1:]
    ),
    lambda rng, frame: frame.iloc[1:],
    lambda rng, frame: frame.iloc[:, 1:],
    lambda rng, frame: frame.mask(np.full(frame.shape, True)),
    lambda rng, frame: frame.to_dict(),
    lambda rng, frame: frame.to_numpy(),
    lambda rng, frame: frame.iloc[:, 0],
    lambda rng, frame: frame.stack(),
    lambda rng, frame: frame.set_axis(pd.MultiIndex.from_product([[1], frame.columns]), axis=1),
    lambda rng, frame: frame.set_axis(pd.date_range("2020", periods=len(frame)), axis=0),
    lambda rng, frame: pd.concat([frame, frame]),
)
