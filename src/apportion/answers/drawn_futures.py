"""Futures of a state: how long who is here takes, and who comes, drawn from a log."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.answers.durations import Durations
from apportion.errors import InputError
from apportion.sim import Workload

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apportion.answers.state import ClusterState
    from apportion.cluster import Cluster

ZERO_S = 1e9
"""The time of the state in its futures: jobs arrived before it, and times are not below 0."""

_MOST_COMING = 300
"""Jobs that come later, at most, in each future."""


def name_of(job: Any) -> str:
    """Return what a job of the state is called in its futures."""
    return f"here-{job}"


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
        here = state.jobs.reset_index().sort_values(["submit_s", "job"])
        moved_s = now_s - state.now_s
        return Durations(
            np.append(self.arrival_s, here["submit_s"] + moved_s),
            np.append(self.start_s, here["start_s"] + moved_s),
            np.append(self.end_s, np.full(len(here), np.nan)),
            np.append(self.gpus, here["gpus"]).astype(np.intp),
            now_s,
        )

    def coming(self, rng: np.random.Generator, horizon_s: float) -> pd.DataFrame:
        """Draw a stretch of the log: who comes in it, how long after its beginning.

        Columns ``after_s``, ``duration_s``, ``gpus`` and ``row``, the place in the log.
        """
        came_s = self.arrival_s[self.fits]
        if not came_s.size:
            return pd.DataFrame(columns=["after_s", "duration_s", "gpus", "row"], dtype=float)
        begin_s = rng.uniform(came_s[0], max(came_s[-1] - horizon_s, came_s[0]))
        within = self.fits & (self.arrival_s > begin_s) & (self.arrival_s <= begin_s + horizon_s)
        rows = np.flatnonzero(within)[:_MOST_COMING]
        took_s = self.end_s[rows] - self.start_s[rows]
        after_s = self.arrival_s[rows] - begin_s
        found = {"after_s": after_s, "duration_s": took_s, "gpus": self.gpus[rows], "row": rows}
        return pd.DataFrame(found)


def future_of(
    state: ClusterState,
    running: Mapping[str, tuple[str, list[int]]],
    history: History,
    durations: Durations,
    told: tuple[pd.DataFrame, pd.DataFrame],
    cluster: Cluster,
    rng: np.random.Generator,
    horizon_s: float,
) -> Workload:
    """Draw one future: durations of who is here, and who comes while somebody waits.

    `told` are columns of who is here, and of the jobs of the history (`told_columns`).
    """
    here = _here(state, running, durations, rng)
    here = here.join(told[0].rename(index=name_of), on="job")
    waits = (state.jobs["state"] == "waiting").any()
    coming = history.coming(rng, horizon_s if waits else 0.0)
    later = pd.DataFrame(
        {
            "job": [f"later-{number:06d}" for number in range(len(coming))],
            "arrival_s": ZERO_S + coming["after_s"],
            "scale_factor": coming["gpus"],
            "total_steps": coming["duration_s"],
            "steps_remaining": coming["duration_s"],
            "job_type": "any",
        }
    )
    own = told[1].iloc[coming["row"].astype(int)].reset_index(drop=True)
    later = pd.concat([later, own], axis=1)
    tables = [here, *([later] if len(later) else [])]
    jobs = pd.concat(tables, ignore_index=True).set_index("job")
    if jobs["time_limit_s"].isna().any():
        jobs = jobs.drop(columns="time_limit_s")
    return Workload("future", jobs, _speeds(jobs, cluster))


def _here(
    state: ClusterState,
    running: Mapping[str, tuple[str, list[int]]],
    durations: Durations,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Draw how long who is here takes."""
    # In an order that is none of the file's: what is drawn for a job hangs on it.
    told = state.jobs.reset_index().sort_values(["submit_s", "job"])
    runs = (told["state"] == "running").to_numpy()
    had_s = np.where(runs, state.now_s - told["start_s"].to_numpy(dtype=float), 0.0)
    drawn_s = durations.draw(rng, told["gpus"].to_numpy(dtype=np.intp), had_s, runs)
    limit_s = told["time_limit_s"].to_numpy(dtype=float)
    took_s = np.maximum(np.fmin(drawn_s, limit_s), had_s + 1.0)
    kinds = [
        (running[job][0] if job in running else kind).lower() or "any"
        for job, kind in zip(told["job"], told["accelerator"], strict=True)
    ]
    return pd.DataFrame(
        {
            "job": [name_of(job) for job in told["job"]],
            "arrival_s": ZERO_S - (state.now_s - told["submit_s"].to_numpy(dtype=float)),
            "scale_factor": told["gpus"].to_numpy(),
            "total_steps": took_s,
            "steps_remaining": took_s - had_s,
            "job_type": kinds,
            "time_limit_s": limit_s,
        }
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
