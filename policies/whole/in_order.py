"""Jobs served one after the other: each as well as those before it leave possible.

With v[j, o] the value of option o to job j and the jobs numbered as they are served, the decision
is the lexicographic optimum ::

    lex max over whole X of (sum over o of v[j, o] X[j, o], for j = 1, 2, ...)
    s.t.  sum over o of X[j, o] <= 1,  sum over j, o of U[j, o, r] X[j, o] <= C[r]

Most turns need no search. A job gets its best option beside the options that those before it have;
that is the best it can have if every better one holds too much of some resource beside the least
that the earlier jobs can hold of it at the values they are sure of. Where neither is so, a program
over the jobs served so far, which may change places but not values, finds the best for the next.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np

from apportion.errors import InputError, SolveError
from apportion.policies.base import Policy
from apportion.policies.problem import Problem
from apportion.policies.solution import Solution
from apportion.policies.whole.statement import state

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from apportion.policies.instance import Instance
    from apportion.types import Floats, Ints

    Decide = Callable[..., Solution]

_ROUNDING = 1e-9
"""Part of a capacity that sums of amounts may miss it by."""
_SAME = 1e-9
"""Relative difference of values that is none."""


def decide_in_order(
    policy: Policy, instance: Instance, order: Ints, decide: Decide, *, time_limit_s: float
) -> Solution:
    """Serve the jobs of an instance in an order.

    Parameters
    ----------
    policy
        A policy of whole decisions whose objective is a sum of a value for each job and option.
    order
        All jobs, the one that is served first in front; pinned jobs keep what they have.
    decide
        Decides the programs of single turns: `apportion.policies.whole.decide.decide`.
    time_limit_s
        Seconds for all searches. After that jobs get the best option that is free, and the status
        is "time_limit".

    Returns
    -------
    Solution
        Its prices are NaN: what one more GPU would change is no number but a place in an order.

    Raises
    ------
    InputError
        If the objective is no such sum, or rows are not single jobs.
    """
    started = time.perf_counter()
    turns = _Turns(policy, instance, _values(policy, instance))
    kept = instance.pinned[order]
    for job in np.concatenate([order[kept], order[~kept]]).tolist():
        turns.serve(job, decide, time_limit_s - (time.perf_counter() - started))
    return turns.solution(time.perf_counter() - started)


def _values(policy: Policy, instance: Instance) -> Floats:
    """Return the value of each option to each job, 0 or less where it is better off without."""
    whole = state(policy, instance)
    if not (whole.is_sum and instance.solo) or (instance.count != 1).any():
        raise InputError(
            f"{policy!r} serves jobs in order: its objective must be a sum of a value for each job "
            f"and option, without constraints of its own, and every row a single job."
        )
    value = np.zeros(instance.rows * instance.options)
    value[whole.cells] = -whole.c
    return np.where(instance.can_run, value.reshape(instance.rows, -1), 0.0)


class _Turns:
    """What the jobs served so far have."""

    def __init__(self, policy: Policy, instance: Instance, value: Floats) -> None:
        self._policy, self._instance, self._value = policy, instance, value
        resources, hard = instance.capacity.size, instance.hard
        usage = instance.usage.toarray().reshape(instance.rows, instance.options, resources)
        self._usage = usage[:, :, hard]
        self._capacity = instance.capacity[hard] * (1 + _ROUNDING)
        self._option = np.full(instance.rows, -1)
        self._left = self._capacity.copy()
        # Least that the jobs served so far can hold, at the values that they are sure of.
        self._least = np.zeros(hard.size)
        self._served: list[int] = []
        self.searched, self.proved = 0, True

    def serve(self, job: int, decide: Decide, left_s: float) -> None:
        """Give the next job what it can have."""
        value, usage = self._value[job], self._usage[job]
        if self._instance.pinned[job]:
            self._take(job, int(self._instance.current[job].argmax()))
            return
        wanted = value > 0
        now = wanted & (usage <= self._left).all(axis=1)
        best = value[now].max(initial=0.0)
        perhaps = wanted & (value > best * (1 + _SAME))
        perhaps &= (usage + self._least <= self._capacity).all(axis=1)
        if perhaps.any() and self._served and self._search(job, perhaps, decide, left_s):
            return
        if now.any():
            self._take(job, self._fits_best(job, now & (value >= best * (1 - _SAME))))

    def solution(self, seconds: float) -> Solution:
        """Return what all have, in the words of the policy."""
        instance, has = self._instance, np.flatnonzero(self._option >= 0)
        X = np.zeros((instance.rows, instance.options))
        X[has, self._option[has]] = 1.0
        p = Problem(instance)
        objective = self._policy.objective(p)
        p.X.value = X
        return Solution(
            X=X,
            throughput=(instance.throughput * X).sum(axis=1),
            objective=float(np.asarray(objective.args[0].value).item()),
            prices=np.full(instance.capacity.size, np.nan),
            gap=0.0 if self.proved else np.inf,
            status="optimal" if self.proved else "time_limit",
            message="" if self.proved else "The time limit struck: later jobs took what was free.",
            stats={
                "solver": "in order",
                "proved_by": "turn by turn" if self.proved else "nobody: the time limit struck",
                "jobs": instance.jobs,
                "options": instance.options,
                "searched": self.searched,
                "solve_s": seconds,
            },
        )

    def _fits_best(self, job: int, among: NDArray[np.bool_]) -> int:
        """Return the option that a job has now, else that which leaves least of what it holds.

        Of equal ones the first.
        """
        kept = among & (self._instance.current[job] > 0)
        if kept.any():
            return int(kept.argmax())
        usage = self._usage[job]
        left = np.where(usage > 0, self._left - usage, np.inf).min(axis=1)
        return int(np.where(among, left, np.inf).argmin())

    def _take(self, job: int, option: int) -> None:
        """Let a job that has none have an option, and settle its value."""
        self._option[job] = option
        self._left = self._left - self._usage[job, option]
        self._served.append(job)
        self._least = self._least + self._least_of(job, self._alike(job, option))

    def _alike(self, job: int, option: int) -> NDArray[np.bool_]:
        """Tell which options are worth to a job what this one is."""
        if self._instance.pinned[job]:
            return np.asarray(np.arange(self._instance.options) == option)
        value = self._value[job]
        return np.asarray((value > 0) & (np.abs(value - value[option]) <= _SAME * value[option]))

    def _least_of(self, job: int, options: NDArray[np.bool_]) -> Floats:
        return np.asarray(self._usage[job][options].min(axis=0), dtype=float)

    def _search(self, job: int, better: NDArray[np.bool_], decide: Decide, left_s: float) -> bool:
        """Look for places of the jobs served so far that leave the next one a better option."""
        if left_s <= 0:
            self.proved = False
            return False
        self.searched += 1
        jobs = np.array([*self._served, job])
        may = np.array([self._alike(each, self._option[each]) for each in self._served] + [better])
        part = self._instance.subset(jobs, np.ones(jobs.size))
        unpinned = {**part.columns, "pinned": np.zeros(jobs.size)}
        part = replace(part, throughput=np.where(may, 1.0, 0.0), columns=unpinned)
        worth = np.zeros(may.shape)
        worth[-1] = self._value[job]
        try:
            found = decide(
                _Turn(self._policy, worth), part, group=False, time_limit_s=left_s, gap=_SAME
            )
        except SolveError:
            self.proved = False
            return False
        self.proved &= found.status != "time_limit"
        if not found.X[-1].any():
            return False
        options = found.X.argmax(axis=1)
        self._option[jobs] = options
        self._served.append(job)
        self._left = self._capacity - self._usage[jobs, options].sum(axis=0)
        self._least = self._least + self._least_of(job, self._alike(job, int(options[-1])))
        return True


@dataclass(frozen=True, eq=False, repr=False)
class _Turn(Policy):
    """The last job as well off as can be, while all others have some option that is open to them.

    The problem, v being the values of the last job::

        max over whole X of v' X[last, :]   s.t.  sum of X[j, :] == 1 for all others
    """

    name = "turn"
    integral = True

    served: Policy
    worth: Floats

    def __repr__(self) -> str:
        return repr(self.served)

    def objective(self, p: Problem) -> cp.Maximize:
        """State what the last job gets."""
        return cp.Maximize(cp.sum(cp.multiply(self.worth, p.X)))

    def constraints(self, p: Problem) -> list[cp.Constraint]:
        """State that all others have an option."""
        return [(p.time[:-1] == 1).set_label("jobs served before keep what they have")]
