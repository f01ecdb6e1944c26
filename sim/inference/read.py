"""Readers of what is served: LLM requests one by one, rates by time."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.checks import file_path, label, mapping, seconds, whole
from apportion.errors import InputError, unknown_name, written
from apportion.sim.inference.requests import REQUEST_COLUMNS, MeasuredRate, checked_requests
from apportion.sim.traces.table import lines_told, missing_column, parse_table, users_table
from apportion.text_files import read_text
from apportion.ties import order_of_submission

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from apportion.sim.traces.table import TraceTable


logger = logging.getLogger(__name__)

AZURE_COLUMNS = {
    "arrival_s": "TIMESTAMP",
    "context_tokens": "ContextTokens",
    "generated_tokens": "GeneratedTokens",
}
"""Columns of Azure's traces of LLM inference, for `read_requests`."""


def read_azure_llm(
    path: str | Path,
    *,
    service: str = "llm",
    seconds_per_context_token: float | None = None,
    seconds_per_generated_token: float | None = None,
    limit: int | None = None,
) -> pd.DataFrame:
    """Read a trace of Azure's LLM inference: columns TIMESTAMP, ContextTokens, GeneratedTokens.

    The trace holds tokens and no durations. They are made only of the two speeds, if given.

    Parameters
    ----------
    path
        The csv, plain or gzipped.
    service
        Name of the service that all requests ask.
    seconds_per_context_token, seconds_per_generated_token
        Speed of the model on one GPU; both or neither.
    limit
        Keep only so many requests, the first to come.

    Returns
    -------
    DataFrame
        Columns arrival_s (from the first request), service, context_tokens, generated_tokens and
        perhaps duration_s, see `REQUEST_COLUMNS`.

    Raises
    ------
    InputError
        For a missing column, a malformed line, or one speed without the other.
    """
    found = read_requests(path, AZURE_COLUMNS, service=service)[
        ["arrival_s", "service", "context_tokens", "generated_tokens"]
    ]
    speeds = (seconds_per_context_token, seconds_per_generated_token)
    if speeds != (None, None):
        if speeds[0] is None or speeds[1] is None:
            raise InputError(
                "Durations need both seconds_per_context_token and seconds_per_generated_token."
            )
        first = seconds("seconds_per_context_token", speeds[0], strict=True)
        then = seconds("seconds_per_generated_token", speeds[1], strict=True)
        found["duration_s"] = first * found["context_tokens"] + then * found["generated_tokens"]
        empty = int((found["duration_s"] == 0).sum())
        if empty:
            logger.warning("%s: requests without tokens are left out: %d", path, empty)
        found = found[found["duration_s"] > 0]
    found = checked_requests(found)
    kept = found if limit is None else found.head(whole("limit", limit, 1))
    return kept.reset_index(drop=True).rename_axis("request")


def read_request_rate(path: str | Path) -> MeasuredRate:
    """Read a rate of requests by time, such as ServeGen's, summed over its clients.

    Parameters
    ----------
    path
        A csv, plain or gzipped, with columns t_s (start of a window, seconds) and rate_rps
        (requests/s). The last window is as long as the one before it.

    Raises
    ------
    InputError
        For a missing column, a malformed line, times that do not ascend, or fewer than two windows.
    """
    file = read_text(path)
    lines = parse_table(file)
    start_s = lines.numbers("t_s", "a number >= 0 (seconds)").to_numpy(dtype=np.float64)
    rates = lines.numbers("rate_rps", "a number >= 0 (requests/s)").to_numpy(dtype=np.float64)
    if start_s.size < 2 or not np.all(np.diff(start_s) > 0):
        raise InputError(f"{file.path}: t_s must ascend, over at least two windows.")
    start_s = start_s - start_s[0]
    return MeasuredRate(start_s, rates, float(2 * start_s[-1] - start_s[-2]))


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
