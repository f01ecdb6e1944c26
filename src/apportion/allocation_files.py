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
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.checks import as_float, is_truth
from apportion.errors import InputError, unknown_name, written
from apportion.table_checks import at_least_0, check_unique
from apportion.text_files import json_of, read_text
from apportion.whole_files import writing

if TYPE_CHECKING:
    from apportion.allocation import Allocation

FORMAT = "apportion.allocation/1"
_PLAIN = ("policy", "objective", "unit", "gap", "status", "message", "stats")
Kinds = Mapping[str, tuple[type, ...]]
"""Of the value of each key; those that may be None need not be there."""
_KINDS: Kinds = {
    **dict.fromkeys(("format", "policy", "unit", "status", "message"), (str,)),
    **dict.fromkeys(("objective", "gap"), (int, float)),
    "stats": (Mapping,),
    **dict.fromkeys(("options", "rows", "X", "jobs", "throughput", "resources", "prices"), (list,)),
    **dict.fromkeys(("levels", "choice"), (list, NoneType)),
    "integral": (bool, NoneType),
}
STATUSES = ("optimal", "optimal_inaccurate", "time_limit", "fallback")
"""Of allocations."""
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
        **{name: plain_value(getattr(allocation, name)) for name in _PLAIN},
        "options": [label_of(option) for option in allocation.X.columns],
        "levels": [None if name is None else str(name) for name in allocation.X.columns.names],
        "rows": [label_of(row) for row in allocation.X.index],
        "X": allocation.X.to_numpy(dtype=float).tolist(),
        "jobs": [label_of(job) for job in allocation.throughput.index],
        "throughput": allocation.throughput.to_numpy(dtype=float).tolist(),
        "resources": [label_of(name) for name in allocation.prices.index],
        "prices": allocation.prices.to_numpy(dtype=float).tolist(),
        "integral": allocation.integral,
        **_choice(allocation),
    }


def _choice(allocation: Allocation) -> dict[str, Any]:
    """Return the option of each row, where each has one or none."""
    if not (allocation.integral and np.isin(allocation.X.to_numpy(), (0.0, 1.0)).all()):
        return {}
    return {"choice": [None if each is None else label_of(each) for each in allocation.choice]}


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
    check_kinds("allocation", content, _KINDS)
    status = content["status"]
    objective, gap = (as_float(content[name]) for name in ("objective", "gap"))
    if status not in STATUSES:
        raise unknown_name("status of the allocation", status, STATUSES)
    if math.isinf(objective) and status != "fallback":
        raise InputError(f"The objective of the allocation is {objective}; it must be finite.")
    if gap < 0:
        raise InputError(f"The gap of the allocation is {gap}; it must be 0 or more.")
    try:
        rows, options = index_of(content["rows"]), index_of(content["options"], levels=True)
        names = content.get("levels")
        options = options if names is None else options.set_names(names)
        check_unique("row of the allocation", rows)
        check_unique("option of the allocation", options)
        X = np.asarray(content["X"], dtype=float).reshape(len(rows), len(options))
        at_least_0("X of the allocation", X)
        return {
            **{name: content[name] for name in _PLAIN},
            "objective": objective,
            "gap": gap,
            "X": pd.DataFrame(X, index=rows, columns=options),
            "throughput": _series("throughput", content["throughput"], content["jobs"]),
            "prices": _series("price", content["prices"], content["resources"]),
            "integral": bool(content.get("integral", False)),
        }
    except InputError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"The parts of the allocation do not fit together: {error}.") from error


def check_kinds(what: str, content: Any, kinds: Kinds) -> None:
    """Hold a mapping to the keys that it has, and to the kinds of their values.

    Raises
    ------
    InputError
        For another kind or key, or one that is missing; it names the key.
    """
    if not isinstance(content, Mapping):
        raise InputError(f"The {what} is {written(content)}; it must be a mapping of names.")
    for name in content:
        if name not in kinds:
            raise unknown_name(f"key of the {what}", name, kinds)
    for name, valid in kinds.items():
        if name not in content and NoneType not in valid:
            raise InputError(f"The {what} has no {name!r}.")
        value = content.get(name)
        if not isinstance(value, valid) or (is_truth(value) and bool not in valid):
            named = " or ".join(dict.fromkeys(_CALLED[kind] for kind in valid))
            raise InputError(f"The {name} of the {what} is {written(value)}; it must be {named}.")


_CALLED: Mapping[type, str] = {
    **{str: "a text", int: "a number", float: "a number", bool: "true or false"},
    **{list: "a list", Mapping: "a mapping", NoneType: "nothing"},
}


def write_object(content: Mapping[str, Any], path: str | Path | None = None) -> str:
    """Write an object as JSON, one line for each of its parts; to a file as well, if given."""
    parts = (
        f"{json.dumps(name)}: {json.dumps(finite(value), allow_nan=False)}"
        for name, value in content.items()
    )
    text = "{\n" + ",\n".join(parts) + "\n}\n"
    if path is not None:
        with writing(path):
            Path(path).write_text(text, encoding="utf-8")
    return text


def from_json(text: str | Path) -> dict[str, Any]:
    """Read what `Allocation.to_json` wrote, as the dict that `to_plain` gave."""
    numbers = ("objective", "gap", "X", "throughput", "prices", "stats")
    content = read_object(text, "allocation")
    return {k: infinite(v) if k in numbers else v for k, v in content.items()}


def read_object(text: str | Path, what: str) -> dict[str, Any]:
    """Read an object that is written in JSON: the text, or a `Path` to read it from.

    Raises
    ------
    InputError
        If it is none, or there is no such file.
    """
    if isinstance(text, Path):
        content = read_text(text).json()
    else:
        content = json_of(text, f"The text of the {what}")
    if not isinstance(content, dict):
        raise InputError(f"This is no {what} in JSON: it holds no object.")
    return content


def _series(name: str, values: Any, labels: list[Any]) -> pd.Series:
    index = index_of(labels)
    check_unique(f"label of the {name}", index)
    numbers = np.asarray(values, dtype=float)
    if np.isinf(numbers).any():
        raise InputError(f"A {name} of the allocation is infinite; it must be finite.")
    return pd.Series(numbers, index=index, name=name)


def index_of(labels: list[Any], *, levels: bool = False) -> pd.Index:
    """Return labels as an index; with `levels` pairs make two of them."""
    known = [tuple(label) if isinstance(label, list) else label for label in labels]
    for label in known:
        label_of(label)
    if levels and known and all(isinstance(label, tuple) for label in known):
        return pd.MultiIndex.from_tuples(known)
    return pd.Index(known, tupleize_cols=False)


def label_of(label: Any) -> Any:
    """Return a label as JSON has it."""
    if isinstance(label, tuple):
        return [label_of(part) for part in label]
    value = label.item() if isinstance(label, np.generic) else label
    if not isinstance(value, (str, int, float)):
        raise InputError(
            f"The label {written(label)} cannot be written; labels must be texts, numbers or "
            f"tuples of them."
        )
    return value


def plain_value(value: Any) -> Any:
    """Return facts and options as JSON has them; what it has no word for as text."""
    if isinstance(value, Mapping):
        return {str(key): plain_value(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain_value(each) for each in value]
    value = value.item() if isinstance(value, np.generic) else value
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def finite(value: Any) -> Any:
    """Put words in the place of NaN and the infinities."""
    if isinstance(value, dict):
        return {key: finite(each) for key, each in value.items()}
    if isinstance(value, list):
        return [finite(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def infinite(value: Any) -> Any:
    """Undo `finite`."""
    if isinstance(value, dict):
        return {key: infinite(each) for key, each in value.items()}
    if isinstance(value, list):
        return [infinite(each) for each in value]
    return _WORDS.get(value, value) if isinstance(value, str) else value
