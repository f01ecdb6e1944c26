"""An allocation as plain Python values, as JSON and as csv, and back.

`to_plain` gives a dict:

==============  ============================================================================
``format``      ``"apportion.allocation/1"``
``policy``      the policy as it would be written; also ``objective``, ``unit``, ``gap``,
                ``status``, ``message`` and ``stats``, as in `Allocation`
``options``     label of each column of X; a list of two where they are pairs with a type first
``levels``      names of the levels of those labels, or None
``rows``        label of each row of X
``X``           share of time, a list for each row
``jobs``        job ids
``throughput``  steps/s of each of the jobs
``resources``   what has a price
``prices``      price of each
``integral``    whether decisions are whole; then also ``choice``, the option of each row or None
==============  ============================================================================

Labels are texts, whole numbers, floats or truth values; a tuple of them is a list. JSON has no NaN
and no infinity: they are the texts ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.errors import InputError, written

if TYPE_CHECKING:
    from apportion.allocation import Allocation

__all__ = ["FORMAT", "fields_of", "from_json", "to_json", "to_plain"]

FORMAT = "apportion.allocation/1"
_PLAIN = ("policy", "objective", "unit", "gap", "status", "message", "stats")
_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def to_plain(allocation: Allocation) -> dict[str, Any]:
    """Return an allocation as dicts, lists, texts and numbers.

    Raises
    ------
    InputError
        For a label that is no text, number or tuple of them.
    """
    return {
        "format": FORMAT,
        **{name: _plain(getattr(allocation, name)) for name in _PLAIN},
        "options": [_label(option) for option in allocation.X.columns],
        "levels": [None if name is None else str(name) for name in allocation.X.columns.names],
        "rows": [_label(row) for row in allocation.X.index],
        "X": allocation.X.to_numpy(dtype=float).tolist(),
        "jobs": [_label(job) for job in allocation.throughput.index],
        "throughput": allocation.throughput.to_numpy(dtype=float).tolist(),
        "resources": [_label(name) for name in allocation.prices.index],
        "prices": allocation.prices.to_numpy(dtype=float).tolist(),
        "integral": allocation.integral,
        **_choice(allocation),
    }


def _choice(allocation: Allocation) -> dict[str, Any]:
    """Return the option of each row, where each has one or none."""
    if not (allocation.integral and np.isin(allocation.X.to_numpy(), (0.0, 1.0)).all()):
        return {}
    return {"choice": [None if each is None else _label(each) for each in allocation.choice]}


def fields_of(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an `Allocation` from what `to_plain` gave.

    Raises
    ------
    InputError
        If it is not of that format, or parts of it are missing or do not fit together.
    """
    if not isinstance(content, Mapping) or content.get("format") != FORMAT:
        found = content.get("format") if isinstance(content, Mapping) else type(content).__name__
        raise InputError(f"An allocation has the format {FORMAT!r}, not {written(found)}.")
    try:
        rows, options = _index(content["rows"]), _index(content["options"], levels=True)
        names = content.get("levels")
        options = options if names is None else options.set_names(names)
        X = np.asarray(content["X"], dtype=float).reshape(len(rows), len(options))
        return {
            **{name: content[name] for name in _PLAIN},
            "X": pd.DataFrame(X, index=rows, columns=options),
            "throughput": _series("throughput", content["throughput"], content["jobs"]),
            "prices": _series("price", content["prices"], content["resources"]),
            "integral": bool(content.get("integral", False)),
        }
    except KeyError as error:
        raise InputError(f"The allocation has no {error.args[0]!r}.") from error
    except (TypeError, ValueError) as error:
        raise InputError(f"The parts of the allocation do not fit together: {error}.") from error


def to_json(allocation: Allocation) -> str:
    """Write `to_plain` as JSON, one line for each of its parts."""
    parts = (
        f"{json.dumps(name)}: {json.dumps(_finite(value), allow_nan=False)}"
        for name, value in to_plain(allocation).items()
    )
    return "{\n" + ",\n".join(parts) + "\n}\n"


def from_json(text: str) -> dict[str, Any]:
    """Read what `to_json` wrote, as the dict that `to_plain` gave."""
    try:
        content = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"This is no allocation in JSON: {error}.") from error
    if not isinstance(content, dict):
        raise InputError("This is no allocation in JSON: it holds no object.")
    numbers = ("objective", "gap", "X", "throughput", "prices", "stats")
    return {k: _infinite(v) if k in numbers else v for k, v in content.items()}


def _series(name: str, values: Any, labels: list[Any]) -> pd.Series:
    return pd.Series(np.asarray(values, dtype=float), index=_index(labels), name=name)


def _index(labels: list[Any], *, levels: bool = False) -> pd.Index:
    """Return labels as an index; with `levels` pairs make two of them."""
    known = [tuple(label) if isinstance(label, list) else label for label in labels]
    if levels and known and all(isinstance(label, tuple) for label in known):
        return pd.MultiIndex.from_tuples(known)
    return pd.Index(known, tupleize_cols=False)


def _label(label: Any) -> Any:
    """Return a label as JSON has it."""
    if isinstance(label, tuple):
        return [_label(part) for part in label]
    value = label.item() if isinstance(label, np.generic) else label
    if not isinstance(value, (str, int, float)):
        raise InputError(
            f"The label {written(label)} cannot be written; labels must be texts, numbers or "
            f"tuples of them."
        )
    return value


def _plain(value: Any) -> Any:
    """Return what is in `Allocation.stats` as JSON has it."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_plain(each) for each in value]
    value = value.item() if isinstance(value, np.generic) else value
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def _finite(value: Any) -> Any:
    """Put words in the place of NaN and the infinities."""
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _infinite(value: Any) -> Any:
    """Undo `_finite`."""
    if isinstance(value, dict):
        return {key: _infinite(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_infinite(each) for each in value]
    return _WORDS.get(value, value) if isinstance(value, str) else value
