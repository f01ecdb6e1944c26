"""What is known of a log at a time: who came, and how long they took; and what is drawn of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from apportion.answers.durations import Durations, kinds_of
from apportion.errors import InputError
from apportion.jobs import JOB_COLUMNS, TOLD_BY_RUNS
from apportion.ties import order_of_submission

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from apportion.answers.state import ClusterState
    from apportion.cluster import Cluster
    from apportion.sim import Workload
    from apportion.types import Floats, Ints


_MOST_COMING = 300
"""Jobs that come later, at most, in each future."""


def users_of(jobs: pd.DataFrame) -> NDArray[np.str_]:
    """Return whose each job is, shape (jobs,), as texts: the user, else the entity, else empty."""
    found = np.full(len(jobs), "", dtype=object)
    for name in ("entity", "user_name", "user"):  # the last that is told counts
        if name in jobs:
            told = jobs[name].notna().to_numpy()
            found[told] = [_text(each) for each in jobs[name].to_numpy(dtype=object)[told]]
    return found.astype(str)


def _text(user: object) -> str:
    """Write a user; numbers of users are whole, also where a table holds them as floats."""
    return str(int(user)) if isinstance(user, float) and user.is_integer() else str(user)


def in_order(state: ClusterState) -> Ints:
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

    def durations(self, state: ClusterState) -> tuple[Durations, Ints]:
        """Return how long jobs take, as the log tells and those tell that run now.

        And the kinds of those who are here, in the order of `_in_order`.
        """
        now_s = self.now_s(state)
        here = state.jobs.iloc[in_order(state)]
        moved_s = now_s - state.now_s
        users = np.concatenate([users_of(self.told), users_of(here)])
        gpus = np.append(self.gpus, here["gpus"]).astype(np.intp)
        kinds = kinds_of(gpus, np.unique(users, return_inverse=True)[1])
        found = Durations(
            np.append(self.arrival_s, here["submit_s"] + moved_s),
            np.append(self.start_s, here["start_s"] + moved_s),
            np.append(self.end_s, np.full(len(here), np.nan)),
            kinds,
            np.append(self._limit_s(), here["time_limit_s"]).astype(float),
            now_s,
        )
        return found, kinds[self.gpus.size :]

    def longest_s(self) -> float:
        """Return for how long a job of the log may run at most; who has no limit, as it ran."""
        limit_s = self._limit_s()
        return float(np.where(np.isnan(limit_s), self.end_s - self.start_s, limit_s).max())

    def _limit_s(self) -> Floats:
        """Return the limits of the jobs, NaN for none."""
        limit_s = self.told.get("time_limit_s", np.full(self.gpus.size, np.nan))
        return np.asarray(limit_s, dtype=float)

    def nobody(self) -> Coming:
        """Return that nobody comes later."""
        return Coming(*(each[:0] for each in (self.arrival_s, self.end_s, self.gpus, self.gpus)))

    def coming(self, rng: np.random.Generator, horizon_s: float) -> Coming:
        """Draw a stretch of the log: who comes in it, how long after its beginning."""
        came_s = self.arrival_s[self.fits]
        if not came_s.size:
            return self.nobody()
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


DEFAULTS = {"weight": 1.0, "deadline_s": np.nan}
"""What holds of a job of which one of these columns is not told."""

_SHARED = (*DEFAULTS, "entity")


def may_be_told(name: str) -> bool:
    """Whether a column is one of which a state and a log tell: one's own, weight and the like."""
    return name in _SHARED or not (name in JOB_COLUMNS or name in TOLD_BY_RUNS)


def told_columns(
    here: pd.DataFrame, log: pd.DataFrame, reads: Iterable[str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the columns that futures have beside those of a queue, of who is here and of the log.

    They are those of which both tell for all jobs, where that is known without them `DEFAULTS`.

    Parameters
    ----------
    here
        Jobs of the state, with further columns as its entries have them; NaN where one has none.
    log
        Jobs of the log.
    reads
        Columns that the policy needs.

    Raises
    ------
    InputError
        For a column that the policy needs and the log, or a job of the state, does not have.
    """
    names = [str(name) for name in log.columns if may_be_told(str(name))]
    needed = [name for name in reads if may_be_told(name) and name not in DEFAULTS]
    names = list(dict.fromkeys([*names, *[each for each in DEFAULTS if each in here], *needed]))
    found: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    for name in names:
        of = [_filled(table, name) for table in (here, log)]
        lacks = of[0].isna().to_numpy() if name not in DEFAULTS else np.zeros(len(here), bool)
        if name in needed and lacks.any():
            raise InputError(
                f"Job {here.index[int(np.argmax(lacks))]} of the state has no {name!r}, which the "
                f"policy needs; give each of its jobs this key."
            )
        if name in needed and name not in log:
            raise InputError(
                f"The policy needs the column {name!r}, which jobs of the log do not have; jobs "
                f"that come later are drawn from it, so give it this column."
            )
        if name in here and not lacks.any():
            for each, values in zip(found, of, strict=True):
                each[name] = values
    return pd.DataFrame(found[0], index=here.index), pd.DataFrame(found[1], index=log.index)


def _filled(table: pd.DataFrame, name: str) -> pd.Series[Any]:
    """Return a column, with its default where it is not told."""
    values = table[name] if name in table else pd.Series(np.nan, index=table.index)
    return values.fillna(DEFAULTS[name]) if name in DEFAULTS else values
