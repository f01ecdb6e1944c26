"""The state in which a round begins, as users tell it: jobs, seconds, who has which devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.checks import mapping
from apportion.cluster import TIERS
from apportion.errors import InputError, unknown_name, written
from apportion.jobs import check_jobs, refuse_misplaced
from apportion.mechanisms.past import Past
from apportion.policies.labelled import aligned
from apportion.problem_inputs import level_names
from apportion.sim.one_round.devices import (
    Available,
    check_fits,
    fitting,
    read_free,
    read_running,
    refuse_twice,
)
from apportion.table_checks import as_floats, check_unique

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apportion.cluster import Cluster
    from apportion.mechanism.devices import Held
    from apportion.sim.about import AboutRun
    from apportion.sim.one_round.devices import Running
    from apportion.tensor import ThroughputTensor
    from apportion.types import Bools, Floats

_MADE_OF = {
    "network_priority": "total_steps, steps_remaining and received=",
    "current_option": "running=",
    "reallocation_factor": "elapsed_s, the column restarts and the setting restart_seconds",
}
"""Columns for `solve` that a round makes itself, and of what."""
_MADE = (
    *_MADE_OF,
    *("order", "running_on", "weight", "elapsed_s", "isolated_elapsed_s", "waited_s"),
    *("scale_factor", "count", "fair_throughput", "arrival_s"),
)
_OF_A_ROUND = (
    *("steps_remaining", "elapsed_s", "isolated_elapsed_s", "running_on", "pinned"),
    *("waited_s", "count"),
)
"""Columns that no workload has."""


@dataclass(frozen=True, eq=False)
class RoundState:
    """Jobs, devices, who has which, and what there was before.

    Attributes
    ----------
    ids, cluster
        All jobs in the order of the throughputs, and all devices.
    jobs
        The jobs table in that order, with ``arrival_s``, ``total_steps`` and ``steps_remaining``.
    now_s
        The time, seconds.
    speeds
        Steps/s by job and accelerator type.
    running
        Who has devices.
    available
        The devices that may be given; ``None`` if there are none.
    takes_part
        Whether each job can run on what is available, shape (jobs,).
    received, owed
        Seconds that jobs have had devices, and those by which they are behind their shares.
    """

    ids: pd.Index
    cluster: Cluster
    jobs: pd.DataFrame
    now_s: float
    speeds: pd.DataFrame
    running: Running
    available: Available | None
    takes_part: Bools
    received: pd.DataFrame
    owed: pd.DataFrame

    @classmethod
    def of(
        cls, tensor: ThroughputTensor, decider: Any, shared: bool, given: Mapping[str, Any]
    ) -> RoundState:
        """Read what users tell.

        Parameters
        ----------
        tensor
            With its cluster, and its jobs table if there is one.
        decider
            Who decides.
        shared
            Whether jobs may have the same devices, by their memory.
        given
            ``running``, ``free``, ``received`` and ``owed``, as of `apportion.solve_round`.

        Raises
        ------
        InputError
            For labels that do not match, values out of range, and a job that the cluster can never
            run.
        """
        cluster, ids = tensor.cluster, tensor.jobs
        jobs = _read_jobs(tensor.on_types_of(cluster), decider)
        speeds = tensor.values.set_axis(ids, axis=0)
        speeds = speeds.reindex(columns=list(cluster.gpus), fill_value=0.0)
        gpus = jobs["scale_factor"]
        check_fits(speeds, cluster, gpus)
        running = read_running(given["running"], cluster, speeds, gpus)
        if not shared:
            refuse_twice(running)
        available = Available.of(cluster, read_free(given["free"], cluster, running))
        received = _read_seconds("received", given["received"], ids, cluster)
        jobs, now_s = _with_clock(_with_steps(jobs))
        _check_time(received, now_s - jobs["arrival_s"])
        owed = _read_seconds("owed", given["owed"], ids, cluster, signed=True)
        part: Any = np.zeros(len(ids), dtype=bool)
        if available is not None:
            part = fitting(speeds, available.cluster, gpus).any(axis=1)
        told = speeds, running, available, part, received, owed
        return cls(ids, cluster, jobs, now_s, *told)

    def table(self) -> pd.DataFrame:
        """Return the jobs that take part as a workload has them."""
        told = self.jobs.drop(columns=list(_OF_A_ROUND), errors="ignore")
        if "job_type" not in told.columns:
            told = told.assign(job_type=[str(job) for job in told.index])
        return told[self.takes_part]

    def begin(self, about: AboutRun) -> Past:
        """Let what a run is about begin in this state; return what its scheduler is told.

        The time is rounded up to where things can happen.
        """
        ids, kinds = about.workload.jobs.index, about.present.accelerators
        place = {job: number for number, job in enumerate(ids.tolist())}
        jobs, now_s = self.jobs.loc[ids], self.now_s
        if about.tick_s:
            now_s = float(np.ceil(now_s / about.tick_s) * about.tick_s)
        elapsed_s = now_s - about.jobs.arrival_s
        held: dict[int, Held] = {}
        for job, (kind, devices) in self.running.items():
            if self.available is not None:
                own = self.available.inside(kind, devices)
                held[place[job]] = kinds.index(kind), own
        running_on = np.full(len(ids), -1.0)
        running_on[list(held)] = [kind for kind, _ in held.values()]
        waited_s = _column(jobs, "waited_s", elapsed_s).copy()
        waited_s[list(held)] = 0.0
        if "running_on" in jobs.columns:
            told = [kinds.index(each) if each in kinds else -1 for each in jobs["running_on"]]
            running_on = np.array(told, dtype=float)
        options = pd.Index(kinds)
        about.truth.begin(
            _column(jobs, "steps_remaining", elapsed_s),
            _column(jobs, "isolated_elapsed_s", elapsed_s),
            _by_option(self.received, ids, options),
        )
        if self.owed.columns.nlevels > 1:
            options = pd.MultiIndex.from_product([kinds, TIERS])
        return Past(
            now_s=now_s,
            held=dict(sorted(held.items())),
            stays=_column(jobs, "pinned", np.zeros(len(ids))).astype(bool),
            waited_s=waited_s,
            running_on=running_on,
            owed_s=_by_option(self.owed, ids, options),
        )


def _column(jobs: pd.DataFrame, name: str, default: Floats) -> Floats:
    return jobs[name].to_numpy(dtype=float) if name in jobs.columns else default


def _read_jobs(tensor: ThroughputTensor, decider: Any) -> pd.DataFrame:
    """Return the jobs table in the order of a tensor, with what a policy or scheduler needs."""
    given = tensor.jobs_table
    table = pd.DataFrame(index=tensor.jobs) if given is None else aligned(given, tensor.jobs)
    for name, parts in _MADE_OF.items():
        if name in table.columns:
            raise InputError(
                f"The column {name!r} of the jobs table is for solve; a round makes it of {parts}. "
                f"Leave it out."
            )
    if (table.get("count", pd.Series([1])) != 1).any():
        raise InputError(
            "The jobs table has a count above 1; in a round every job has devices of its own: give "
            "each a row."
        )
    steps = {"steps_remaining", "total_steps"}
    needed = [name for name in getattr(decider, "columns", ()) if name not in _MADE]
    if not hasattr(decider, "columns") and type(decider).__module__.startswith("apportion."):
        needed = [] if hasattr(decider, "scheduler") else ["steps_remaining"]
    if steps & set(table.columns):
        needed = [name for name in needed if name not in steps]
    check_jobs(table, required=needed)
    if hasattr(decider, "columns"):  # a scheduler may read any
        refuse_misplaced(table.columns, decider.columns, tensor.accelerator_of_option)
    return table if "scale_factor" in table.columns else table.assign(scale_factor=1)


def _with_clock(jobs: pd.DataFrame) -> tuple[pd.DataFrame, float]:
    """Tell when each job arrived; return the time, too, of `arrival_s` and `elapsed_s`."""
    if "elapsed_s" not in jobs.columns:
        jobs = jobs if "arrival_s" in jobs.columns else jobs.assign(arrival_s=0.0)
        return jobs, float(jobs["arrival_s"].max()) if len(jobs) else 0.0
    elapsed_s = jobs["elapsed_s"].astype(float)
    if "arrival_s" not in jobs.columns:
        now_s = float(elapsed_s.max()) if len(jobs) else 0.0
        return jobs.assign(arrival_s=now_s - elapsed_s), now_s
    times_s = jobs["arrival_s"] + elapsed_s
    now_s = float(times_s.max()) if len(jobs) else 0.0
    late = now_s - times_s > 1e-6 * max(now_s, 1.0)
    if late.any():
        row = int(np.argmax(late))
        raise InputError(
            f"Job {written(jobs.index[row])} has arrival_s + elapsed_s = {times_s.iloc[row]:g}, "
            f"another job {now_s:g}; together they are the time of the round. Leave one of them "
            f"out, or give all jobs the same sum."
        )
    return jobs, now_s


def _with_steps(jobs: pd.DataFrame) -> pd.DataFrame:
    """Tell all steps of each job and those that are left; one step where nothing is told."""
    given = {name: jobs[name].astype(float) for name in jobs.columns if "steps" in name}
    one = pd.Series(1.0, jobs.index)
    total = given.get("total_steps", given.get("steps_remaining", one))
    left = given.get("steps_remaining", total)
    more = left > total
    if more.any():
        row = int(np.argmax(more))
        raise InputError(
            f"Job {written(jobs.index[row])} has steps_remaining = {left.iloc[row]:g} of "
            f"total_steps = {total.iloc[row]:g}; it cannot have more left than there are."
        )
    return jobs.assign(total_steps=total, steps_remaining=left)


def _read_seconds(
    name: str, given: Any, ids: pd.Index, cluster: Cluster, *, signed: bool = False
) -> pd.DataFrame:
    """Read seconds by job and option, below 0 if `signed`: by type, or by (type, tier)."""
    valid = "a DataFrame of jobs by accelerators, or a mapping such as {'job': {'v100': 60.0}}"
    if not isinstance(given, pd.DataFrame):
        told = mapping(name, {} if given is None else given, valid)
        rows = {job: mapping(name, row, valid) for job, row in told.items()}
        columns = dict.fromkeys(option for row in rows.values() for option in row)
        cells = [[row.get(option, 0.0) for option in columns] for row in rows.values()]
        labels = pd.Index(list(rows), tupleize_cols=False)
        given = pd.DataFrame(cells, index=labels, columns=pd.Index(list(columns)))
    check_unique(f"row of {name}", given.index)
    check_unique(f"column of {name}", given.columns)
    levels = level_names(given.columns)
    if levels is None:
        raise InputError(f"{name} must be {valid}, or by (accelerator, tier).")
    for job in given.index:
        if job not in ids:
            raise unknown_name(f"job in {name}", job, list(ids))
    kinds = given.columns.get_level_values(levels.index("accelerator")).map(str)
    for kind in kinds:
        if kind not in cluster.gpus:
            raise unknown_name(f"accelerator in {name}", kind, cluster.gpus)
    values = as_floats(given).reshape(given.shape)
    wrong = ~np.isfinite(values) | ((values < 0) & (not signed))
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise InputError(
            f"{name} of {written(given.index[row])} on {written(given.columns[column])} is "
            f"{written(given.iat[row, column])}; it must be a finite number of seconds"
            f"{'' if signed else ' >= 0'}."
        )
    options = kinds
    if "tier" in levels:
        tiers = given.columns.get_level_values(levels.index("tier"))
        options = pd.MultiIndex.from_arrays([kinds, tiers])
    return pd.DataFrame(values, given.index, options)


def _by_option(seconds: pd.DataFrame, ids: pd.Index, options: pd.Index) -> Floats:
    """Return seconds of jobs at options; 0 where nothing is told, all tiers by type alone."""
    if options.nlevels < seconds.columns.nlevels:
        seconds = seconds.T.groupby(level=0).sum().T
    return np.asarray(seconds.reindex(index=ids, columns=options).fillna(0.0), dtype=float)


def _check_time(received: pd.DataFrame, there_s: pd.Series) -> None:
    """Refuse a job that has had devices for longer than it is there."""
    known_s = dict(zip(there_s.index.tolist(), there_s.tolist(), strict=True))
    for job, seconds in zip(received.index.tolist(), received.sum(axis=1).tolist(), strict=True):
        if seconds > known_s[job] * (1 + 1e-6) + 1e-6:
            raise InputError(
                f"Job {written(job)} has received {seconds:g} s of devices and is there for "
                f"{known_s[job]:g} s; tell elapsed_s (or arrival_s) in the jobs table."
            )
