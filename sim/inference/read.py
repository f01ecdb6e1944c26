"""Requests read from a csv of one's own, or of a published trace of LLM serving."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pandas as pd

from apportion.checks import file_path, label, mapping
from apportion.errors import InputError, unknown_name, written
from apportion.sim.inference.requests import REQUEST_COLUMNS, checked_requests
from apportion.sim.traces.table import lines_told, missing_column, users_table
from apportion.ties import order_of_submission

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from apportion.sim.traces.table import TraceTable


logger = logging.getLogger(__name__)


def read_requests(
    path: str | Path, columns: Mapping[str, str] | None = None, *, service: str | None = None
) -> pd.DataFrame:
    """Read requests from a csv, plain or gzipped, with the columns of `REQUEST_COLUMNS`.

    A column ``request`` holds their names; without it they are numbered from 0. Those of no
    duration are left out, and a warning names their lines.

    Parameters
    ----------
    path
        The csv.
    columns
        What columns are called in the file, by their names here: ``{"arrival_s": "TIMESTAMP",
        "context_tokens": "ContextTokens", "generated_tokens": "GeneratedTokens"}``. Other columns
        of the file are left out then. Arrivals may be date-times, and then begin at 0 with the
        first.
    service
        What all requests ask, where the file does not say it; by default ``"model"``.

    Raises
    ------
    InputError
        For a missing or unknown column, a malformed line, or what `checked_requests` refuses.
    """
    lines = users_table(path)
    given = _named(lines, columns)
    found: dict[str, Any] = {
        name: _column(lines, name, given[name]) for name in given if name != "request"
    }
    if "service" not in found:
        found["service"] = label("service", "model" if service is None else service)
    elif service is not None:
        raise InputError(f"{lines.file.path} says which service is asked; leave service out.")
    named = "request" in given
    index = lines.ids(given["request"]) if named else pd.RangeIndex(len(lines.rows))
    table = pd.DataFrame(found, index=lines.rows.index)
    empty = pd.Series(found.get("duration_s", 1.0), index=table.index) == 0
    if empty.any():
        which = lines_told(empty.index[empty])
        logger.warning("%s: requests of no duration are left out: %s", lines.file.path, which)
    return checked_requests(table.set_axis(index, axis=0)[~empty.to_numpy()], sized=columns is None)


def requests_given(given: Any, *, sized: bool = True) -> pd.DataFrame:
    """Return requests that are a table or in a csv file, checked, in the order of arrival.

    Parameters
    ----------
    given
        The table, or the path of the file.
    sized
        As in `checked_requests`.

    Raises
    ------
    InputError
        If they are neither, or as `read_requests` and `checked_requests`.
    """
    if isinstance(given, pd.DataFrame):
        requests = checked_requests(given, sized=sized)
    elif isinstance(given, (str, bytes)) or hasattr(given, "__fspath__"):
        requests = read_requests(file_path("requests", given))
    else:
        raise InputError(
            f"The requests are {written(given)}; they must be a table, see generate_requests, or "
            f"the path of a csv file."
        )
    # Those that come together do so by their names, whatever row they stood in.
    order = order_of_submission(requests.index, requests["arrival_s"].to_numpy(dtype=float))
    return requests.iloc[order]


def _named(lines: TraceTable, columns: Mapping[str, str] | None) -> dict[str, str]:
    """Return what columns of requests are called in a file, by their names here."""
    known = ("request", *REQUEST_COLUMNS)
    has = lines.rows.columns
    if columns is None:
        for name in has:
            if name not in known:
                raise unknown_name(
                    f"column of {lines.file.path} (columns= says other names)",
                    *(name, REQUEST_COLUMNS),
                )
        return {name: name for name in has}
    for name, given in mapping("columns", columns).items():
        if name not in known:
            raise unknown_name("column of requests", name, known)
        if given not in has:
            raise missing_column(lines.file, given, has)
    if "arrival_s" not in columns:
        raise InputError(
            f"Say which column of {lines.file.path} has the arrivals: arrival_s=NAME. It has: "
            f"{', '.join(map(str, has))}."
        )
    return dict(columns)


def _column(lines: TraceTable, name: str, given: str) -> pd.Series:
    """Return a column of requests, by its name here and in the file."""
    if name == "service":
        return lines.texts(given)
    if name.endswith("_tokens"):
        return lines.numbers(given, "a whole number >= 0", whole=True)
    if name == "arrival_s":
        if lines.rows[given].astype(str).str.match(r"\d{4}-\d{2}").any():
            times = lines.times(given)
            return times.sub(times.min())
        return lines.numbers(given, "a number >= 0, or a date-time such as 2017-10-03 13:45:00")
    return lines.numbers(given)
