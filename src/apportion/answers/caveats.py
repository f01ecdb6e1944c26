"""What a forecast cannot know, and says of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.answers.durations import FEWEST
from apportion.answers.history import users_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apportion.answers.history import History
    from apportion.answers.state import ClusterState
    from apportion.cluster import Cluster


_NAMED = 3
"""Jobs that are named, at most, where several are the same case."""


def caveats(state: ClusterState, history: History, cluster: Cluster) -> list[str]:
    """Return a sentence for each reason for which the times of a forecast mean less than they say.

    Parameters
    ----------
    state
        Who is here.
    history
        The log, until the time of the state.
    cluster
        As it is today.
    """
    return [
        *_of_the_state(state),
        *_of_the_log(history),
        *_of_jobs(state, history),
        *_of_the_cluster(history, cluster),
    ]


def _of_the_state(state: ClusterState) -> Iterator[str]:
    """Say how many entries count for nothing."""
    if state.left_out:
        entries = "entry" if state.left_out == 1 else "entries"
        yield (
            f"Left out of the state: {state.left_out:,} {entries} that neither run nor wait, or "
            f"have no GPUs. If some of them hold GPUs, others start later than told."
        )


def _of_the_log(history: History) -> Iterator[str]:
    """Say that the log is short, and how much of it is later than the state."""
    if history.later:
        yield (
            f"Left out of the log: {history.later:,} jobs that had not ended by the time of the "
            f"state."
        )
    count = history.gpus.size
    if count < FEWEST:
        jobs = "job" if count == 1 else "jobs"
        yield (
            f"Only {count} {jobs} of the log had ended, and {FEWEST} are the fewest from which is "
            f"learnt how far durations scatter: take no time for sure."
        )


def _of_jobs(state: ClusterState, history: History) -> Iterator[str]:
    """Say which jobs are beyond all of the log."""
    took_s, jobs = history.end_s - history.start_s, state.jobs
    had_s = state.now_s - jobs["start_s"].to_numpy(dtype=float)
    longest_s = float(took_s.max())
    past = np.isnan(jobs["time_limit_s"].to_numpy(dtype=float)) & (had_s > longest_s)
    if past.any():
        who = named(jobs.index[past].tolist(), "has run", "have run")
        yield (
            f"{who} for longer than any job of the log ({longest_s / 3600:.1f} h): how much "
            f"longer is not learnt from it."
        )
    user, known = users_of(jobs), users_of(history.told)
    new = (user != "") & ~np.isin(user, known)
    if new.any() and (known != "").any():
        who = named(jobs.index[new].tolist(), "is of a user", "are of users")
        yield f"{who} of whom the log has no job: durations are those of all users."
    most = int(history.gpus.max())
    wide = jobs["gpus"].to_numpy() > most
    if wide.any():
        who = named(jobs.index[wide].tolist(), "has", "have")
        yield (
            f"{who} more GPUs than any job of the log ({most}): durations are those of all jobs."
        )


def named(jobs: list[object], one: str, several: str) -> str:
    """Name some jobs, and give the verb: ``Jobs 7, 8, 9 and 4 more have run``."""
    if len(jobs) == 1:
        return f"Job {jobs[0]} {one}"
    names = [str(job) for job in jobs]
    if len(names) > _NAMED:
        names = [*names[:_NAMED], f"{len(names) - _NAMED} more"]
    return f"Jobs {', '.join(names[:-1])} and {names[-1]} {several}"


def _of_the_cluster(history: History, cluster: Cluster) -> Iterator[str]:
    """Say that more GPUs were in use than there are."""
    if not (history.start_s > history.arrival_s).any():
        return  # when jobs started is not told
    at_s = np.concatenate([history.end_s, history.start_s])
    change = np.concatenate([-history.gpus, history.gpus])
    most = int(np.cumsum(change[np.argsort(at_s, kind="stable")]).max())
    if most > (has := int(sum(cluster.gpus.values()))):
        yield (
            f"In the log up to {most:,} GPUs were in use at once, and the cluster has {has:,}: it "
            f"has changed, or the log is of another. Moments at which more ran than it has are not "
            f"looked at."
        )
