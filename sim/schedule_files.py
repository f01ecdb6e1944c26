"""Schedules as files: one row per stay, machines and devices as text such as ``0-3 6``.

Also as a jobs file of Batsim, which evalys and its like read and draw.
"""

from __future__ import annotations

import gzip
import io
import zlib
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.checks import file_path
from apportion.errors import InputError, unknown_name
from apportion.sim.schedule import SCHEDULE_COLUMNS
from apportion.whole_files import replace_file, restored, to_csv

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from numpy.typing import NDArray

    from apportion.sim.run import Run

_TUPLES = ("machines", "devices")

_MOST_DEVICES = 10**7
"""Numbers of devices and machines in a file are below: a mistyped interval fills no memory."""


def intervals(numbers: Iterable[int]) -> str:
    """Write numbers as text, those that count up by one as an interval; `numbers_in` reads it.

    >>> intervals([0, 1, 2, 3, 6])
    '0-3 6'
    """
    runs = groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])
    parts = [[number for _, number in run] for _, run in runs]
    ends = [(part[0], part[-1]) for part in parts]
    return " ".join(str(low) if low == high else f"{low}-{high}" for low, high in ends)


def numbers_in(text: str) -> tuple[int, ...]:
    """Return the numbers that `intervals` was given.

    Raises
    ------
    ValueError
        If it is no such text.

    Examples
    --------
    >>> numbers_in("0-3 6")
    (0, 1, 2, 3, 6)
    """
    ends = [part.partition("-")[::2] for part in text.split()]
    runs = [(int(low), int(high or low)) for low, high in ends]
    if any(not low <= high < _MOST_DEVICES for low, high in runs):
        raise ValueError(f"{text[:80]!r} are no numbers from 0 to {_MOST_DEVICES:,}")
    return tuple(k for low, high in runs for k in range(low, high + 1))


def save_schedule(schedule: pd.DataFrame, path: str | Path) -> Path:
    """Write a schedule, with a column ``policy`` or without; return where it is.

    Same schedule, same bytes.

    Parameters
    ----------
    schedule
        As `apportion.Run.schedule` returns it.
    path
        A name that ends in ``.csv``, ``.csv.gz`` or ``.parquet``.

    Raises
    ------
    InputError
        For another ending, or if the file cannot be written.
    """
    target = file_path("path", path)
    written = schedule.assign(**{name: _each_once(schedule[name], intervals) for name in _TUPLES})
    try:
        if target.suffix == ".parquet":
            replace_file(target, written.to_parquet(index=False))
        elif target.name.endswith((".csv", ".csv.gz")):
            text = to_csv(written, index=False).encode()
            packed = target.suffix == ".gz"
            # A low level: most of the time goes into the text, and higher ones gain little.
            replace_file(target, gzip.compress(text, 5, mtime=0) if packed else text)
        else:
            raise InputError(
                f"Cannot save to {str(target)!r}: the name must end in .csv, .csv.gz or .parquet."
            )
    except ImportError as error:
        raise InputError("Parquet files need pyarrow: pip install apportion[parquet].") from error
    except OSError as error:
        raise InputError(f"Cannot write {str(target)!r}: {error.strerror or error}.") from error
    return target


def read_schedule(path: str | Path, policy: str | None = None) -> pd.DataFrame:
    """Read the schedule of a run, or those of a comparison, from a file.

    Parameters
    ----------
    path
        What `apportion.Comparison.save` or `apportion.Run.save_schedule` has written:
        ``schedule.csv.gz``, ``.csv`` or ``.parquet``.
    policy
        Whose stays to return, without the column ``policy``; None for those of all.

    Returns
    -------
    DataFrame
        As `apportion.Run.schedule`, every number to the last bit. Csv files do not tell texts from
        numbers: ids of jobs that are all whole numbers are read as numbers.

    Raises
    ------
    InputError
        If the file cannot be read or is no schedule, or has no such policy.
    """
    source = file_path("path", path)
    try:
        table = _read(source)
        for name in _TUPLES:
            table[name] = _each_once(table[name], numbers_in)
        columns = ["policy"] * ("policy" in table) + list(SCHEDULE_COLUMNS)
        table = table[columns].astype({"start_s": float, "end_s": float})
        if not np.isfinite(table[["start_s", "end_s"]].to_numpy()).all():
            raise ValueError("a stay has no start or no end in seconds")
    except OSError as error:
        raise InputError(f"Cannot read {str(source)!r}: {error.strerror or error}.") from error
    except (ValueError, LookupError, EOFError, zlib.error) as error:
        raise InputError(f"{str(source)!r} is no schedule of a run: {error}.") from error
    if policy is None:
        return table
    known = table["policy"].unique().tolist() if "policy" in table else []
    if policy not in known:
        raise unknown_name("policy of the schedule", policy, known)
    return table[table["policy"] == policy].drop(columns="policy").reset_index(drop=True)


def _read(source: Path) -> pd.DataFrame:
    """Read texts and numbers as they stand in a file."""
    content = source.read_bytes()
    if source.suffix == ".parquet":
        return pd.read_parquet(io.BytesIO(content))
    text = gzip.decompress(content) if source.suffix == ".gz" else content
    # Numbers as texts, as the conversion of the reader is not exact in every version of pandas.
    table = pd.read_csv(io.BytesIO(text), dtype=str, keep_default_na=False)
    for name in ("policy", "job", "accelerator"):
        if name in table:
            table[name] = restored(table[name])
    if table["job"].str.fullmatch(r"0|-?[1-9]\d{0,17}").all():
        table["job"] = table["job"].astype(np.int64)
    return table


def _each_once(values: pd.Series, function: Callable[[Any], Any]) -> pd.Series:
    """Return the values of a function, which is called once for equal ones."""
    of = {value: function(value) for value in values.unique()}
    made: NDArray[np.object_] = np.empty(len(values), dtype=object)
    made[:] = [of[value] for value in values]
    return pd.Series(made, index=values.index, dtype=object)


def batsim_jobs(run: Run) -> pd.DataFrame:
    """Return the schedule in the columns of Batsim's ``_jobs.csv``, one row per stay.

    Batsim knows no preemption, so that a job with several uninterrupted stays is written as so many
    jobs: ``a`` is then ``a!1``, ``a!2``, ...; each is submitted when the one before has ended, and
    only the last one succeeds. ``metadata`` is the id of the job. Devices are numbered through, one
    accelerator type after the other, in the order of the cluster.

    Raises
    ------
    InputError
        If the run has no schedule.

    Notes
    -----
    Columns as Batsim documents them (output of jobs): ``waiting_time`` = start - submission,
    ``turnaround_time`` = finish - submission, ``stretch`` = turnaround / execution.
    ``requested_time`` and ``consumed_energy``, of which nothing is known, are -1.
    """
    schedule = run.schedule.sort_values(["start_s", "end_s"], kind="stable", ignore_index=True)
    of_job = schedule.groupby("job", sort=False)
    stay, stays = of_job.cumcount() + 1, of_job["job"].transform("size")
    names = schedule["job"].astype(str)
    arrival_s = run.jobs["arrival_s"].reindex(schedule["job"]).to_numpy(dtype=float)
    submitted = of_job["end_s"].shift().fillna(pd.Series(arrival_s)).to_numpy(dtype=float)
    start, end = (schedule[name].to_numpy(dtype=float) for name in ("start_s", "end_s"))
    numbers = _numbered_through(run, schedule)
    with np.errstate(divide="ignore", invalid="ignore"):
        stretch = np.where(end > start, (end - submitted) / (end - start), 1.0)
    return pd.DataFrame(
        {
            "job_id": names.where(stays == 1, names + "!" + stay.astype(str)),
            "workload_name": run.workload,
            "profile": names,
            "submission_time": submitted,
            "requested_number_of_resources": [len(devices) for devices in numbers],
            "requested_time": -1.0,
            "success": (stay == stays).astype(int),
            "final_state": np.where(stay == stays, "COMPLETED_SUCCESSFULLY", "COMPLETED_KILLED"),
            "starting_time": start,
            "execution_time": end - start,
            "finish_time": end,
            "waiting_time": start - submitted,
            "turnaround_time": end - submitted,
            "stretch": stretch,
            "allocated_resources": [intervals(devices) for devices in numbers],
            "consumed_energy": -1.0,
            "metadata": names,
        }
    )


def save_batsim(run: Run, path: str | Path) -> Path:
    """Write the schedule as a jobs file of Batsim; return where it is.

    `apportion.Run.save_batsim` calls it.

    Raises
    ------
    InputError
        If the run has no schedule, or the file cannot be written.
    """
    target = file_path("path", path)
    text = to_csv(batsim_jobs(run).set_index("job_id"))
    try:
        replace_file(target, text.encode())
    except OSError as error:
        raise InputError(f"Cannot write {str(target)!r}: {error.strerror or error}.") from error
    return target


def _numbered_through(run: Run, schedule: pd.DataFrame) -> list[list[int]]:
    """Return the devices of each stay, numbered over all types."""
    types = run.cluster.accelerators
    first = dict(zip(types, np.cumsum([0, *run.cluster.counts[:-1]]).tolist(), strict=True))
    rows = zip(schedule["accelerator"], schedule["devices"], strict=True)
    return [sorted(first[kind] + device for device in devices) for kind, devices in rows]
