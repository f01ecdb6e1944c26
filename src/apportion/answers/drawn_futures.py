"""Futures of a state: how long who is here takes, and who comes, drawn from a log."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from apportion.answers.durations import Durations
from apportion.answers.own_columns import told_columns
from apportion.answers.state import placed
from apportion.errors import InputError
from apportion.mechanism.batch.alone import QueuedJobs, starts_alone
from apportion.sim import Workload
from apportion.sim.given_order import present_types
from apportion.ties import order_of_submission

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from apportion.answers.state import ClusterState
    from apportion.cluster import Cluster
    from apportion.mechanism.batch.scheduler import BatchScheduler
    from apportion.types import Floats, Ints

ZERO_S = 1e9
"""The time of the state in its futures: jobs arrived before it, and times are not below 0."""

_MOST_COMING = 300
"""Jobs that come later, at most, in each future."""


def _name_of(job: Any) -> str:
    """Return what a job of the state is called in its futures."""
    return f"here-{job}"


def _in_order(state: ClusterState) -> Ints:
    """Return the order of jobs in futures, none of the file's: what is drawn hangs on it."""
    return order_of_submission(state.jobs.index, state.jobs["submit_s"].to_numpy(dtype=float))


@dataclass(frozen=True, eq=False)
class History:
    """Jobs of a log, in the order of arrival.

    Attributes
    ----------
    arrival_s, start_s, end_s, gpus
        Shape (jobs,); a log that tells no starts is taken for one in which nobody waited.
    fits
        Whether the cluster holds each job, shape (jobs,).
    told
        The other columns of the log, one row per job.
    later
        How many jobs more the log has, which had not ended by the time of the state.
    """

    arrival_s: np.ndarray
    start_s: np.ndarray
    end_s: np.ndarray
    gpus: np.ndarray
    fits: np.ndarray
    told: pd.DataFrame
    later: int = 0

    @classmethod
    def of(cls, log: Workload, cluster: Cluster) -> History:
        """Read the durations of a log: as recorded, else at the speed of its fastest type."""
        jobs = log.jobs
        arrival_s = start_s = jobs["arrival_s"].to_numpy(dtype=float)
        gpus = jobs["scale_factor"].to_numpy(dtype=np.intp)
        if "recorded_end_s" in jobs:
            end_s = jobs["recorded_end_s"].to_numpy(dtype=float)
            start_s = jobs["recorded_start_s"].to_numpy(dtype=float)
        else:
            speed = log.to_frame().filter(regex="_steps_per_s$").to_numpy(dtype=float)
            end_s = start_s + jobs["total_steps"].to_numpy(dtype=float) / speed.max(axis=1)
        kept = np.isfinite(end_s - start_s) & (end_s > start_s)
        if not kept.any():
            raise InputError(f"The log {log.name!r} tells no durations.")
        found = [each[kept] for each in (arrival_s, start_s, end_s, gpus)]
        order = np.argsort(found[0], kind="stable")
        arrival_s, start_s, end_s, gpus = (each[order] for each in found)
        fits, told = gpus <= cluster.counts.max(), jobs[kept].iloc[order]
        return cls(arrival_s, start_s, end_s, gpus, fits, told)

    def until(self, now_s: float) -> History:
        """Return what is known of it at a time: jobs that ended by then.

        A log that begins later, or has ended, is left as it is: the former has another clock.

        Raises
        ------
        InputError
            If none had ended.
        """
        if not self.arrival_s[0] <= now_s < self.end_s.max():
            return self
        known = self.end_s <= now_s
        if not known.any():
            raise InputError(
                f"No job of the log had ended by the time of the state, {now_s:g}; the log goes "
                f"from {self.arrival_s[0]:g} to {self.end_s.max():g} s. Give a log of what was "
                f"before."
            )
        arrays = ("arrival_s", "start_s", "end_s", "gpus", "fits", "told")
        kept = {name: getattr(self, name)[known] for name in arrays}
        return replace(self, **kept, later=int(np.count_nonzero(~known)))

    def now_s(self, state: ClusterState) -> float:
        """Return the time of a state in the clock of the log.

        A log that begins after the state has another clock: its last end is taken for now.
        """
        return max(state.now_s, float(self.end_s.max()))

    def durations(self, state: ClusterState) -> Durations:
        """Return how long jobs take, as the log tells and those tell that run now."""
        now_s = self.now_s(state)
        here = state.jobs.iloc[_in_order(state)]
        moved_s = now_s - state.now_s
        return Durations(
            np.append(self.arrival_s, here["submit_s"] + moved_s),
            np.append(self.start_s, here["start_s"] + moved_s),
            np.append(self.end_s, np.full(len(here), np.nan)),
            np.append(self.gpus, here["gpus"]).astype(np.intp),
            now_s,
        )

    def coming(self, rng: np.random.Generator, horizon_s: float) -> Coming:
        """Draw a stretch of the log: who comes in it, how long after its beginning."""
        came_s = self.arrival_s[self.fits]
        if not came_s.size:
            return Coming(came_s, came_s, self.gpus[:0], self.gpus[:0])
        begin_s = rng.uniform(came_s[0], max(came_s[-1] - horizon_s, came_s[0]))
        within = self.fits & (self.arrival_s > begin_s) & (self.arrival_s <= begin_s + horizon_s)
        rows = np.flatnonzero(within)[:_MOST_COMING]
        took_s = np.ceil(self.end_s[rows] - self.start_s[rows])
        return Coming(np.ceil(self.arrival_s[rows] - begin_s), took_s, self.gpus[rows], rows)


class Coming(NamedTuple):
    """Who comes later, in the order of arrival: whole seconds from now on, and places in the log.

    All of shape (jobs,).
    """

    after_s: Floats
    took_s: Floats
    gpus: Ints
    row: Ints


class Futures:
    """Futures of one state: durations of who is here, and who comes while somebody waits.

    Times are whole seconds from the state on, so that no sum of them is rounded.

    Parameters
    ----------
    state
        Who is here.
    history
        The log.
    cluster
        Where they run.
    reads
        Columns that the policy needs.
    horizon_s
        For how long jobs come later.

    Raises
    ------
    InputError
        For a state that does not fit the cluster, and as `told_columns`.
    """

    def __init__(
        self,
        state: ClusterState,
        history: History,
        cluster: Cluster,
        reads: Iterable[str],
        horizon_s: float,
    ) -> None:
        self.order = _in_order(state)
        self._jobs = jobs = state.jobs.iloc[self.order].reset_index()
        self._running = placed(state, cluster)
        self._kinds = [
            (self._running[job][0] if job in self._running else kind).lower() or "any"
            for job, kind in zip(jobs["job"].tolist(), jobs["accelerator"].tolist(), strict=True)
        ]
        self._runs = (jobs["state"] == "running").to_numpy()
        self._gpus = jobs["gpus"].to_numpy(dtype=np.intp)
        had_s = state.now_s - jobs["start_s"].to_numpy(dtype=float)
        self._had_s = np.where(self._runs, had_s, 0.0)
        self._limit_s = jobs["time_limit_s"].to_numpy(dtype=float)
        self._submit_s = jobs["submit_s"].to_numpy(dtype=float) - state.now_s
        self._cluster, self._history = cluster, history
        self._durations = history.durations(state)
        self._told = told_columns(state.jobs, history.told, reads)
        self._horizon_s = horizon_s if not self._runs.all() else 0.0
        self._check_fit()

    def draw(self, rng: np.random.Generator) -> tuple[Floats, Coming]:
        """Draw a future: for how long each who is here still runs, and who comes."""
        drawn_s = self._durations.draw(rng, self._gpus, self._had_s, self._runs)
        left_s = np.fmin(drawn_s, self._limit_s) - self._had_s
        return np.ceil(np.maximum(left_s, 1.0)), self._history.coming(rng, self._horizon_s)

    def in_queue(self, decider: BatchScheduler, left_s: Floats, coming: Coming) -> Floats:
        """Return when a queue alone starts who is here, seconds from now on."""
        present = present_types(self._cluster).gpus
        kinds = [name.lower() for name in present]
        every = list(range(len(kinds)))
        some = [every if kind == "any" else [kinds.index(kind)] for kind in self._kinds]
        limit_s = np.concatenate([self._limit_s - self._had_s, np.full(coming.row.size, np.nan)])
        jobs = QueuedJobs(
            np.concatenate([self._submit_s, coming.after_s]).tolist(),
            np.concatenate([self._gpus, coming.gpus]).tolist(),
            np.concatenate([left_s, coming.took_s]).tolist(),
            limit_s.tolist(),
            [*some, *[every] * coming.row.size],
        )
        running = {int(job): some[job][0] for job in np.flatnonzero(self._runs)}
        capacity = [int(count) for count in present.values()]
        return np.array(starts_alone(decider, jobs, capacity, 0.0, running, len(some)))

    def workload(
        self, left_s: Floats, coming: Coming
    ) -> tuple[Workload, dict[Hashable, tuple[str, Sequence[int]]]]:
        """Return a future as jobs, those here first, who arrived by `ZERO_S`; and who has what."""
        here = pd.DataFrame(
            {
                "job": [_name_of(job) for job in self._jobs["job"]],
                "arrival_s": ZERO_S + self._submit_s,
                "scale_factor": self._gpus,
                "total_steps": self._had_s + left_s,
                "steps_remaining": left_s,
                "job_type": self._kinds,
                "time_limit_s": self._limit_s,
            }
        ).join(self._told[0].rename(index=_name_of), on="job")
        later = pd.DataFrame(
            {
                "job": [f"later-{number:06d}" for number in range(coming.row.size)],
                "arrival_s": ZERO_S + coming.after_s,
                "scale_factor": coming.gpus,
                "total_steps": coming.took_s,
                "steps_remaining": coming.took_s,
                "job_type": "any",
            }
        )
        own = self._told[1].iloc[coming.row].reset_index(drop=True)
        tables = [here, *([pd.concat([later, own], axis=1)] if len(later) else [])]
        jobs = pd.concat(tables, ignore_index=True).set_index("job")
        if jobs["time_limit_s"].isna().all():
            jobs = jobs.drop(columns="time_limit_s")
        begun: dict[Hashable, tuple[str, Sequence[int]]]
        begun = {_name_of(job): devices for job, devices in self._running.items()}
        return Workload("future", jobs, _speeds(jobs, self._cluster)), begun

    def _check_fit(self) -> None:
        """Raise an error for a job that waits and that no type of the cluster holds."""
        most = {name.lower(): int(count) for name, count in self._cluster.gpus.items()}
        most["any"] = max(most.values())
        for job, kind, gpus in zip(self._jobs["job"], self._kinds, self._gpus, strict=True):
            if gpus > most.get(kind, 0):
                of = "" if kind == "any" else f" {kind}"
                raise InputError(
                    f"Job {job} of the state waits for {gpus}{of} GPUs; the cluster "
                    f"{self._cluster} has no type of which there are so many."
                )


def _speeds(jobs: pd.DataFrame, cluster: Cluster) -> pd.DataFrame:
    """Return speeds by which steps are seconds, on the type that a job asks for, or on any."""
    kinds = sorted(set(zip(jobs["job_type"], jobs["scale_factor"].astype(int), strict=True)))
    runs_on = [
        [1.0 if kind in ("any", name.lower()) else 0.0 for name in cluster.gpus]
        for kind, _ in kinds
    ]
    index = pd.MultiIndex.from_tuples(kinds, names=["job_type", "scale_factor"])
    return pd.DataFrame(runs_on, index=index, columns=[*cluster.gpus])
