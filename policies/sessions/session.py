"""Sessions: jobs come and go, and each solve begins where the last one ended."""

from __future__ import annotations

import functools
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

from apportion.annotations import checked, explained
from apportion.checks import label
from apportion.cluster import Cluster
from apportion.errors import InputError, unknown_name
from apportion.policies.core.program import Program
from apportion.policies.registry import get_policy
from apportion.policies.sessions.session_input import types_of, with_options
from apportion.policies.sessions.session_jobs import SessionJobs
from apportion.policies.solver import solve_instance
from apportion.statistics.typeset import as_html
from apportion.tensor import ThroughputTensor

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping
    from types import TracebackType

    from apportion.allocation import Allocation
    from apportion.policies.base import Policy
    from apportion.policies.sessions.session_input import Facts, Throughputs

    P = ParamSpec("P")
    R = TypeVar("R")


@checked
def session(
    policy: Policy | str,
    cluster: Cluster | Mapping[str, int] | str | ThroughputTensor,
    *,
    second_stage: bool = True,
) -> Session:
    """Open a session: an allocation problem whose jobs come and go.

    ``s.solve()`` gives what `solve` gives for the jobs at hand. Up to some 200 different jobs, and
    where an objective is a sum over jobs or about the worst off of them, the solver begins at the
    last optimum. ``stats["path"]`` is "warm start" then, else "cold start".

    Several threads may use a session: their calls take turns. It can be copied and pickled; a copy
    has the state and begins anew.

    Parameters
    ----------
    policy
        A `Policy` or its name; without space sharing.
    cluster
        A `Cluster`, a mapping of GPU counts, or text such as ``"v100=8,k80=16"``; or a
        `ThroughputTensor` that carries its workers, whose jobs are added at once.
    second_stage
        Whether the choice among equal optima is made as in `solve`.

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
    opened = Session(chosen, workers, second_stage=second_stage)
    if isinstance(given, ThroughputTensor):
        opened.add(given)
    return opened


def _in_turn(
    method: Callable[Concatenate[Session, P], R],
) -> Callable[Concatenate[Session, P], R]:
    """Let one thread at a time into a session that is open: a solver can serve no other."""

    @functools.wraps(method)
    def alone(self: Session, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._lock:
            if not self._open:
                raise InputError("The session is closed.")
            return method(self, *args, **kwargs)

    return cast("Callable[Concatenate[Session, P], R]", alone)


class Session:
    """An allocation problem whose jobs come and go; a call with bad input changes nothing.

    The types are those of the cluster: where a job has no speed it cannot run. What was said of
    its speed on a type that the cluster no longer has counts again when the type is back.
    """

    @explained
    def __init__(self, policy: Policy, cluster: Cluster, *, second_stage: bool) -> None:
        if policy.space_sharing:
            raise InputError(f"{policy!r} lets jobs share GPUs, which a session cannot; use solve.")
        self.policy = policy
        self._lock = threading.RLock()
        self._second_stage = second_stage
        self._open = True
        self._start = Program()
        self._jobs = SessionJobs(policy, cluster)

    def __enter__(self) -> Session:
        if not self._open:
            raise InputError("The session is closed.")
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
        with self._lock:
            self._open, self._start = False, Program()

    def __repr__(self) -> str:
        return f"<Session of {self.policy!r}: {len(self)} jobs on {self.cluster}>"

    def _repr_html_(self) -> str:
        return as_html(repr(self).strip("<>"), [{"job": job} for job in self.jobs])

    def __len__(self) -> int:
        return len(self._jobs.rows)

    @property
    def jobs(self) -> list[Hashable]:
        """Ids of the jobs at hand, in the order in which they came."""
        with self._lock:
            return [*self._jobs.rows]

    @property
    def cluster(self) -> Cluster:
        """The GPUs that jobs share now."""
        return self._jobs.cluster

    @_in_turn
    def add(self, throughputs: Throughputs, jobs: Facts | None = None) -> None:
        """Add jobs; one that is there with the same values stays as it is.

        So a cell of a notebook may run again.

        Parameters
        ----------
        throughputs
            Steps/s of each new job under each option, as for `solve`; single jobs, no combinations.
            A job cannot run under an option that it has no speed for.
        jobs
            What else is known of them: a table, a mapping of mappings by job, or a dict of columns
            as for `solve`; by default what a `ThroughputTensor` carries.

        Raises
        ------
        InputError
            If a job is there with other values, fits nowhere, or anything else is wrong with it.
        """
        self._jobs = self._jobs.add(throughputs, jobs)

    @_in_turn
    def remove(self, jobs: Iterable[Hashable]) -> None:
        """Remove jobs by id.

        Raises
        ------
        InputError
            If a job is not there, or is named twice.
        """
        self._jobs.remove(jobs)

    @_in_turn
    def update(self, jobs: Facts) -> None:
        """Change what is known of some jobs: the columns given, the others stay.

        A column that is called as an option is the speed under it.

        Raises
        ------
        InputError
            If a job is not there, or a value is out of range.
        """
        self._jobs.update(jobs)

    @_in_turn
    def set_cluster(self, cluster: Cluster | Mapping[str, int] | str) -> None:
        """Go on with other GPUs: nodes that come and go, types that are new or no longer there.

        Parameters
        ----------
        cluster
            As for `session`.

        Raises
        ------
        InputError
            If it is none, or a job at hand fits nowhere on it.
        """
        new = Cluster.of(cluster)
        told = self._jobs.options if self._jobs.told is None else self._jobs.told
        self._jobs = self._jobs.on(new, with_options(told, told, new))

    @_in_turn
    def set_capacity(self, accelerator: str, gpus: int) -> None:
        """Go on with another number of GPUs of one type, e.g. while a node is drained.

        Parameters
        ----------
        accelerator
            A type of the cluster, or one that it had before.
        gpus
            GPUs of the type that can be used; 0 for none.

        Raises
        ------
        InputError
            If the type is unknown or the number is none, or a job at hand fits nowhere then.
        """
        name, now = label("accelerator type", accelerator), self.cluster.gpus
        had: Iterable[str] = () if self._jobs.told is None else types_of(self._jobs.told)
        if name not in now and name not in had:
            raise unknown_name(
                "accelerator type of this session", name, dict.fromkeys([*now, *had])
            )
        new = replace(self.cluster, gpus={**now, name: gpus})
        self._jobs = self._jobs.on(new, self._jobs.told)

    @_in_turn
    def solve(self) -> Allocation:
        """Solve for the jobs at hand.

        Returns
        -------
        Allocation
            As `solve` returns it.

        Raises
        ------
        InputError
            If there are no jobs.
        InfeasibleError, SolveError
            If there is no allocation, or no solver found one.
        """
        if not len(self):
            raise InputError("There are no jobs in the session; add some before solve.")
        posed, start = self._jobs.posed(), self._start
        start.path = "cold start"
        found = solve_instance(
            self.policy, posed.instance, second_stage=self._second_stage, start=start
        )
        found.stats.update(path=start.path, jobs=len(self))
        return posed.allocation(self.policy, posed.order.restore(found))

    async def solve_async(self) -> Allocation:
        """Solve as `solve` does, in a thread: others go on while it is awaited.

        Calls of one session take turns, in whatever tasks and threads they are made.
        """
        import asyncio  # a twentieth of a solve from a shell, which awaits nothing

        return await asyncio.to_thread(self.solve)

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy needs: no lock, no solver, and nothing that would be shared."""
        with self._lock:
            jobs = self._jobs.on(self.cluster, self._jobs.told)
            return {**vars(self), "_jobs": jobs, "_lock": None, "_start": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.RLock(), _start=Program())
