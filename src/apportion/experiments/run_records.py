"""Finished runs as plain values, and back: every number of a table comes back bit for bit."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import pandas as pd

from apportion.experiments.machine.cells import NotPlainError
from apportion.sim import Run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apportion.cluster import Cluster

# Types of columns that come back from a list of plain values as they were.
_DTYPES = re.compile(r"float64|u?int(8|16|32|64)|bool|object|str")
# Stands for an object that the caller has given, such as a network, and will give again.
_GIVEN = {"given": True}
_FIGURES = ("policy_seconds", "wall_seconds", "solves", "uncertified")


def record_of(run: Run, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a run as values that JSON has.

    Parameters
    ----------
    run
        What to keep.
    given
        Settings of its simulation. Objects among them, such as a network, are left out.

    Raises
    ------
    NotPlainError
        If a table or a setting holds other things than texts and numbers.
    """
    tables = {"jobs": run.jobs, "rounds": run.rounds, **run.tables}
    return {
        "tables": {name: _packed_table(table) for name, table in tables.items()},
        "settings": {
            name: _GIVEN if _is_given(name, value, given) else packed(value)
            for name, value in run.settings.items()
        },
        **{name: getattr(run, name) for name in _FIGURES},
        "on_average": [*run.on_average],
    }


def run_of(
    record: Mapping[str, Any],
    policy: str,
    workload: str,
    cluster: Cluster,
    given: Mapping[str, Any],
) -> Run:
    """Return the run that `record_of` was given.

    Parameters
    ----------
    record
        What it returned.
    policy, workload, cluster, given
        What is not in it: the names and the settings of a simulation of the same fingerprint.

    Raises
    ------
    ValueError, TypeError, LookupError
        If the record is none.
    """
    tables = {name: _unpacked_table(table) for name, table in record["tables"].items()}
    settings = {
        name: given[name] if value == _GIVEN else unpacked(value)
        for name, value in record["settings"].items()
    }
    return Run(
        policy=policy,
        workload=workload,
        cluster=cluster,
        jobs=tables.pop("jobs"),
        rounds=tables.pop("rounds"),
        settings=settings,
        tables=tables,
        **{name: record[name] for name in _FIGURES},
        on_average=tuple(record["on_average"]),
    )


def _is_given(name: str, value: object, given: Mapping[str, Any]) -> bool:
    """Whether a setting is an object that will be given again."""
    plain = (type(None), bool, int, float, str)
    return name in given and not isinstance(value, plain) and not isinstance(given[name], plain)


def _packed_table(table: pd.DataFrame) -> dict[str, Any]:
    index = table.index
    if isinstance(index, pd.RangeIndex):
        rows: dict[str, Any] = {"range": [index.start, index.stop, index.step]}
    else:
        rows = _packed_column(index)
    columns = {str(name): _packed_column(table[name]) for name in table.columns}
    return {"rows": {"name": index.name, **rows}, "columns": columns}


def _unpacked_table(packed: Mapping[str, Any]) -> pd.DataFrame:
    rows = packed["rows"]
    if "range" in rows:
        index: pd.Index = pd.RangeIndex(*rows["range"]).rename(rows["name"])
    else:
        index = pd.Index(_unpacked_column(rows), name=rows["name"])
    columns = {name: _unpacked_column(column) for name, column in packed["columns"].items()}
    return pd.DataFrame(columns, index=index)


def _packed_column(values: pd.Series | pd.Index) -> dict[str, Any]:
    dtype = str(values.dtype)
    if not _DTYPES.fullmatch(dtype):
        raise NotPlainError(f"a column of {dtype}")
    if dtype == "object":
        return {"dtype": dtype, "values": [packed(value) for value in values]}
    listed = values.tolist()
    if dtype in ("float64", "str"):
        # JSON writes every float in full, but has no infinity, and nothing that is missing.
        missing = {"float64": _finite, "str": _text}[dtype]
        listed = [missing(value) for value in listed]
    return {"dtype": dtype, "values": listed}


def _unpacked_column(packed: Mapping[str, Any]) -> Any:
    dtype, values = packed["dtype"], packed["values"]
    if not _DTYPES.fullmatch(dtype):
        raise ValueError(f"{dtype!r} is no type of a column")
    if dtype == "object":
        column = pd.Series([None] * len(values), dtype=object)
        for place, value in enumerate(values):
            column.iat[place] = unpacked(value)
        return column.array
    if dtype == "float64":
        values = [float(value) for value in values]
    return pd.array(values, dtype=dtype) if dtype == "str" else pd.Series(values, dtype=dtype).array


def _finite(value: float) -> float | str:
    return value if math.isfinite(value) else repr(value)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def packed(value: Any) -> Any:
    """Write one value so that its type is kept: floats and tuples as objects of JSON.

    Raises
    ------
    NotPlainError
        If it is neither a text, a number, None nor a tuple of such.
    """
    if hasattr(value, "item"):  # a scalar of numpy
        value = value.item()
    if isinstance(value, float):
        return {"float": repr(value)}
    if isinstance(value, tuple):
        return {"tuple": [packed(each) for each in value]}
    if value is None or type(value) in (bool, int, str):
        return value
    raise NotPlainError(f"a {type(value).__name__}")


def unpacked(value: Any) -> Any:
    """Return the value that `packed` was given.

    Raises
    ------
    LookupError, TypeError, ValueError
        If it is none of its.
    """
    if not isinstance(value, dict):
        return value
    if "float" in value:
        return float(value["float"])
    return tuple(unpacked(each) for each in value["tuple"])
