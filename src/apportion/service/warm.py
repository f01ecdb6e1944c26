"""The problem of a policy, kept warm between answers, and one made anew beside it."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from apportion.errors import ApportionError
from apportion.policies import session
from apportion.service.tables import told_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from concurrent.futures import Future

    from apportion.allocation import Allocation
    from apportion.cluster import Cluster
    from apportion.policies import Session
    from apportion.policies.sessions.session_allocation import SessionAllocation
    from apportion.service.known import Known

_AT_ONCE, _PAUSE_S = 250, 0.005
"""Jobs that are added at once beside what answers, and a pause in which that can go on."""


class WarmShares:
    """Shares of what is known now, from a session that has heard of all before.

    Parameters
    ----------
    decider
        A policy.
    known
        What is known now.
    """

    def __init__(self, decider: Any, known: Known) -> None:
        self._decider, self._known = decider, known
        self._session: Session | None = None
        self._changed: set[str] = set()
        self._since: set[str] = set()
        self._beside = ThreadPoolExecutor(1, thread_name_prefix="prepare")
        self._prepared: Future[Session | None] | None = None

    def changed(self, jobs: Iterable[str]) -> None:
        """Take note of jobs that came, went, or are otherwise known now."""
        self._changed.update(jobs)
        self._since.update(jobs)

    def prepare(self, *, wanted: bool) -> None:
        """Make a problem anew from what is known now, beside the one that answers until `turn`."""
        self._since.clear()
        self._prepared = None
        if wanted:
            self._prepared = self._beside.submit(self._made, self._known.frozen())

    def turn(self) -> None:
        """Answer by what was prepared, as a service does that begins with the state of then."""
        self._session = None if self._prepared is None else self._prepared.result()
        self._prepared = None
        self._changed = {*self._since}

    def drop(self) -> None:
        """Begin anew: a solve has failed."""
        self._session = None

    def asked(self) -> Callable[[], Allocation | SessionAllocation]:
        """Return what solves, in another thread, for what is known now."""
        return partial(self._solve, self._changes(), self._known.cluster)

    def close(self) -> None:
        """End the thread."""
        self._beside.shutdown(wait=True, cancel_futures=True)

    def _changes(self) -> dict[str, tuple[dict[str, float], dict[str, Any]] | None]:
        """Return what the session has not heard of: speeds and columns by job, or gone."""
        jobs = sorted(self._known.facts if self._session is None else self._changed)
        self._changed.clear()
        return {job: told_of(self._known, job, self._decider) for job in jobs}

    def _solve(
        self, changes: Mapping[str, Any], cluster: Cluster
    ) -> Allocation | SessionAllocation:
        """Bring the changes into the session, and solve."""
        new = {job: told for job, told in changes.items() if told is not None}
        if self._session is not None:
            there = {*self._session.jobs}
            if gone := [job for job in changes if job in there]:
                self._session.remove(gone)
            if cluster != self._session.cluster:
                self._session.set_cluster(cluster)
        else:
            self._session = session(self._decider, cluster)
        _add(self._session, new)
        return self._session.solve()

    def _made(self, known: Known) -> Session | None:
        """Return a session that has solved once; none if that cannot be."""
        made = session(self._decider, known.cluster)
        jobs = sorted(known.facts)
        try:
            for first in range(0, len(jobs), _AT_ONCE):
                told = {job: told_of(known, job, self._decider) for job in jobs[first:][:_AT_ONCE]}
                _add(made, {job: each for job, each in told.items() if each is not None})
                time.sleep(_PAUSE_S)
            made.solve()
        except ApportionError:
            return None
        return made


def _add(session: Session, told: Mapping[str, tuple[dict[str, float], dict[str, Any]]]) -> None:
    if told:
        speeds = {job: each[0] for job, each in told.items()}
        session.add(speeds, {job: each[1] for job, each in told.items()})
