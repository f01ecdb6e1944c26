"""Readers of request traces: LLM requests one by one, and rates of requests by time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from apportion.checks import label, seconds, whole
from apportion.errors import InputError, unknown_name
from apportion.sim.inference.rates import MeasuredRate
from apportion.sim.inference.requests import REQUEST_COLUMNS, checked_requests
from apportion.sim.traces.table import parse_table
from apportion.sim.traces.text import read_text

if TYPE_CHECKING:
    from pathlib import Path


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
    lines = parse_table(read_text(path))
    times = lines.times("TIMESTAMP")
    found = pd.DataFrame(
        {
            "arrival_s": times - times.min(),
            "service": label("service", service),
            "context_tokens": lines.numbers("ContextTokens", "a whole number >= 0", whole=True),
            "generated_tokens": lines.numbers("GeneratedTokens", "a whole number >= 0", whole=True),
        }
    )
    speeds = (seconds_per_context_token, seconds_per_generated_token)
    if speeds != (None, None):
        if speeds[0] is None or speeds[1] is None:
            raise InputError(
                "Durations need both seconds_per_context_token and seconds_per_generated_token."
            )
        first = seconds("seconds_per_context_token", speeds[0], strict=True)
        then = seconds("seconds_per_generated_token", speeds[1], strict=True)
        found["duration_s"] = first * found["context_tokens"] + then * found["generated_tokens"]
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


def read_requests(path: str | Path) -> pd.DataFrame:
    """Read requests from a csv, plain or gzipped, with the columns of `REQUEST_COLUMNS`.

    A column ``request`` holds their names; without it they are numbered from 0.

    Raises
    ------
    InputError
        For a missing or unknown column, a malformed line, or what `checked_requests` refuses.
    """
    lines = parse_table(read_text(path))
    named = "request" in lines.rows.columns
    names = [name for name in lines.rows.columns if name != "request"]
    for name in names:
        if name not in REQUEST_COLUMNS:
            raise unknown_name(f"column of {lines.file.path}", name, REQUEST_COLUMNS)
    found = {
        name: lines.texts(name) if name == "service" else lines.numbers(name) for name in names
    }
    index = lines.ids("request") if named else pd.RangeIndex(len(lines.rows))
    return checked_requests(pd.DataFrame(found).set_axis(index, axis=0))
