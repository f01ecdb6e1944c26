"""The schedule of a run as a jobs file of Batsim, which evalys and its like read and draw."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from apportion.checks import file_path
from apportion.csv_cells import to_csv
from apportion.errors import InputError
from apportion.sim.schedule_files import intervals
from apportion.whole_files import replace_file

if TYPE_CHECKING:
    from pathlib import Path

    from apportion.sim.run import Run

__all__ = ["batsim_jobs", "save_batsim"]


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
