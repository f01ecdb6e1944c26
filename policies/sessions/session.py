"""Sessions: jobs come and go, and only what changed is solved again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from apportion.checks import choice, hashable
from apportion.cluster import Cluster
from apportion.errors import InputError, unknown_name, written
from apportion.kinds import checked
from apportion.policies.labelled import solve
from apportion.policies.labels import instance_of, jobs_of
from apportion.policies.placements.tiers import GangPacking
from apportion.policies.registry import get_policy
from apportion.policies.sessions.job_kinds import JobClasses
from apportion.policies.sessions.job_roll import JobRoll
from apportion.policies.sessions.session_allocation import SessionAllocation
from apportion.policies.sessions.session_input import (
    described,
    descriptions,
    of_single_jobs,
    read_jobs,
    recognised,
    table_of,
)
from apportion.policies.sessions.warm_classes import WarmClasses
from apportion.table_checks import check_unique
from apportion.tensor import ThroughputTensor
from apportion.threads import one_thread

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping
    from types import TracebackType

    import pandas as pd

    from apportion.allocation import Allocation
    from apportion.policies.base import Policy
    from apportion.policies.sessions.counted_solver import Route
    from apportion.policies.sessions.job_kinds import JobKind
    from apportion.policies.sessions.session_input import Facts, Throughputs

__all__ = ["Session", "session"]


@checked
def session(
    policy: Policy | str,
    cluster: Cluster | Mapping[str, int] | str | ThroughputTensor,
    *,
    second_stage: bool = True,
    route: Route = "direct deltas",
) -> Session:
    """Open a session: an allocation problem whose jobs come and go.

    ``s.solve()`` gives what `solve` gives for the jobs at hand. Where jobs are classes with a
    count, as under `MaxMinFairness` and `MaxTotalThroughput`, an event changes a few numbers of a
    problem that stays in the solver. Under other policies every solve is a new one;
    ``stats["path"]`` of the result says which it was.

    Parameters
    ----------
    policy
        A `Policy` or its name; without space sharing.
    cluster
        A `Cluster`, a mapping of GPU counts, or text such as ``"v100=8,k80=16"``; or a
        `ThroughputTensor` that carries its workers, whose jobs are added at once.
    second_stage
        Whether the choice among equal optima is made as in `solve`.
    route
        ``"direct deltas"``, or ``"parametrised"`` to have cvxpy apply the counts, which is slower;
        the result is the same.

    Raises
    ------
    InputError
        If a name is unknown, the policy lets jobs share GPUs, or it decides in whole numbers.

    Examples
    --------
    >>> with session("max_min_fairness", "v100=1,k80=1") as s:
    ...     s.add({"ana": {"v100": 40.0, "k80": 10.0}, "ben": {"v100": 12.0, "k80": 4.0}})
    ...     shared = s.solve()
    ...     s.remove(["ana"])
    ...     alone = s.solve()
    """
    chosen, given = get_policy(policy), cluster
    workers = given.cluster if isinstance(given, ThroughputTensor) else Cluster.of(given)
    opened = Session(chosen, workers, second_stage=second_stage, route=route)
    if isinstance(given, ThroughputTensor):
        opened.add(given)
    return opened


class Session:
    """An allocation problem whose jobs come and go; a call with bad input changes nothing."""

    def __init__(
        self, policy: Policy, cluster: Cluster, *, second_stage: bool, route: Route
    ) -> None:
        if policy.space_sharing:
            raise InputError(f"{policy!r} lets jobs share GPUs, which a session cannot; use solve.")
        if policy.integral:
            raise InputError(
                f"{policy!r} decides in whole numbers, of which nothing is kept from one solve to "
                f"the next; use solve."
            )
        choice("route", route, _ROUTES)
        self.policy, self.cluster = policy, cluster
        self._second_stage = second_stage
        self._route: Route = route
        self._open = True
        self._options: pd.Index | None = None
        self._names: list[Hashable] | None = None
        self._jobs = JobRoll()
        self._classes = JobClasses(("weight", "scale_factor"))
        self._warm: WarmClasses | None = None
        self._may_be_warm = True

    def __enter__(self) -> Session:
        self._check_open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the solver's memory back; the session can no longer be used, its results can."""
        self._open, self._warm = False, None

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def jobs(self) -> list[Hashable]:
        """Ids of the jobs at hand, in the order in which they came."""
        return self._jobs.snapshot().ids()

    @one_thread
    def add(self, throughputs: Throughputs, jobs: Facts | None = None) -> None:
        """Add jobs.

        Parameters
        ----------
        throughputs
            Steps/s of each new job under each option, as for `solve`; single jobs, no combinations.
        jobs
            What else is known of them: a table, a mapping of mappings by job, or a dict of columns
            as for `solve`; by default what a `ThroughputTensor` carries.

        Raises
        ------
        InputError
            If a job is there already, fits nowhere, or anything else is wrong with it.
        """
        self._check_open()
        kinds = recognised(throughputs, jobs, self._names, self._classes.known)
        if kinds is None:
            kinds = self._read(*read_jobs(throughputs, jobs, self.cluster))
        for job in kinds:
            if job in self._jobs:
                raise InputError(f"Job {written(job)} is in the session already; use update.")
        for job, kind in kinds.items():
            self._jobs.add(job, kind)
            self._classes.come(kind)

    @one_thread
    def remove(self, jobs: Iterable[Hashable]) -> None:
        """Remove jobs by id.

        Raises
        ------
        InputError
            If a job is not there, or is named twice.
        """
        self._check_open()
        going = [jobs] if isinstance(jobs, str) else hashable("job to remove", jobs)
        for job in going:
            if job not in self._jobs:
                raise unknown_name("job to remove", job, self.jobs)
        if len(set(going)) < len(going):
            twice = next(job for place, job in enumerate(going) if job in going[:place])
            raise InputError(f"Job {written(twice)} is to be removed twice.")
        for job in going:
            self._classes.go(self._jobs.remove(job))
        self._classes.forget(len(self))

    @one_thread
    def update(self, jobs: Facts) -> None:
        """Change what is known of some jobs: the columns given, the others stay.

        Raises
        ------
        InputError
            If a job is not there, or a value is out of range.
        """
        self._check_open()
        table = table_of(jobs)
        if table is None:
            raise InputError("There is nothing to update: jobs is None.")
        check_unique("job id", table.index)
        for job in table.index:
            if job not in self._jobs:
                raise unknown_name("job to update", job, self.jobs)
        if not len(table):
            return
        old = self._labelled({job: self._jobs[job] for job in table.index})
        known = old[1].drop(columns=table.columns, errors="ignore").join(table)
        kinds = self._read(ThroughputTensor.of(old[0]), known)
        for job, kind in kinds.items():
            self._classes.go(self._jobs[job])
            self._classes.come(kind)
        self._jobs.revise(lambda job, kind: kinds.get(job, kind))
        self._classes.forget(len(self))

    @one_thread
    def solve(self) -> SessionAllocation | Allocation:
        """Solve for the jobs at hand.

        Returns
        -------
        Allocation
            As `solve` returns it; with ``stats["path"]`` "direct deltas" or "parametrised" one
            that makes its labelled tables when they are asked for.

        Raises
        ------
        InputError
            If there are no jobs.
        InfeasibleError, SolveError
            If there is no allocation, or no solver found one.
        """
        self._check_open()
        if not self._jobs:
            raise InputError("There are no jobs in the session; add some before solve.")
        warm = self._ready()
        if warm is None:
            now = self._jobs.snapshot()
            tensor, table = self._labelled(dict(zip(now.ids(), now.kinds(), strict=True)))
            second = self._second_stage
            found = solve(
                self.policy, tensor, workers=self.cluster, jobs=table, second_stage=second
            )
            return replace(found, stats={**found.stats, "path": "solved anew"})
        solution = warm.solve(
            np.array(self._classes.count, dtype=float),
            second_stage=self._second_stage,
            route=self._route,
        )
        return SessionAllocation(
            solution=solution,
            policy_asked=self.policy,
            cluster=self.cluster,
            options=cast("pd.Index", self._options),
            _roll=self._jobs.snapshot(),
        )

    def _check_open(self) -> None:
        if not self._open:
            raise InputError("The session is closed.")

    def _read(self, tensor: ThroughputTensor, jobs: pd.DataFrame | None) -> dict[Hashable, JobKind]:
        """Check jobs as `solve` does, and find or make their kinds."""
        tensor = of_single_jobs(tensor, self._options)
        table = jobs_of(tensor, jobs, self.policy)
        instance = instance_of(
            tensor, self.cluster, table, (), GangPacking.none(tensor).largest_gang
        )
        self._options, self._names = tensor.options, tensor.options.tolist()
        self._may_be_warm &= tensor.options.nlevels == 1  # tiers have limits of the whole mix
        kinds = self._classes.kinds_of(descriptions(tensor, jobs), instance)
        return dict(zip(tensor.jobs, kinds, strict=True))

    def _labelled(self, jobs: Mapping[Hashable, JobKind]) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Throughputs and facts of some jobs as tables."""
        return described({job: kind.said for job, kind in jobs.items()}, self._options)

    def _ready(self) -> WarmClasses | None:
        """Return a problem that has every class at hand, compiled if it has to be."""
        if not self._may_be_warm:
            return None
        if self._warm is None or len(self._classes.count) > self._warm.classes.jobs:
            was_valid = self._warm is not None
            packed = self._classes.pack()
            if packed:
                self._jobs.revise(lambda _, kind: packed[kind])
            self._warm = WarmClasses.of(self.policy, self._classes.instance(), checked=was_valid)
            self._may_be_warm = self._warm is not None
        return self._warm


_ROUTES = ("direct deltas", "parametrised")
