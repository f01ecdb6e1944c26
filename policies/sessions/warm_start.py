"""A policy solved again and again: each solve starts from what the last one left.

Up to some 200 different jobs that is one linear program in HiGHS, in which each job keeps its
place; numbers that are no longer what they were are changed there. The result does not depend on
it: the choice among optima is made from the optimal face. Larger problems, and other objectives,
are solved as they come (`solve_instance`).
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from apportion.policies.core import solve as core
from apportion.policies.core.forms import Form, read
from apportion.policies.core.jobs import Jobs
from apportion.policies.core.program import Program
from apportion.policies.solution import ACCURATE, Solution
from apportion.policies.solving.driver import solve_instance
from apportion.policies.solving.rows import reduce
from apportion.threads import one_thread

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from apportion.policies.base import Policy
    from apportion.policies.core.solve import Answer
    from apportion.policies.instance import Instance
    from apportion.policies.solving.pairs import PairTable
    from apportion.policies.solving.rows import Reduction
    from apportion.types import Floats, Ints


_LOG = logging.getLogger(__name__)

WARM, COLD = "warm start", "cold start"
"""Values of ``stats["path"]``: from what the last solve left, or as `solve_instance` does."""


_EMPTY = {"gain": 0.0, "level": np.inf, "inverse": 1e-300}
"""By form, the number of a slot without a job: it adds nothing, and never decides the level."""


class WarmStart:
    """What a policy's last solve leaves for the next one, over jobs that come and go.

    Parameters
    ----------
    policy
        The policy.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._program: Program | None = None
        self._slot_of: dict[Hashable, int] = {}

    @one_thread
    def solve(
        self,
        ids: Sequence[Hashable],
        instance: Instance,
        *,
        second_stage: bool = True,
        pairs: PairTable | None = None,
    ) -> Solution:
        """Return what `solve_instance` returns for an instance.

        Parameters
        ----------
        ids
            By which jobs are known again, one for each job of the instance.
        instance
            The problem.
        second_stage, pairs
            As for `solve_instance`.

        Raises
        ------
        InputError, InfeasibleError, SolveError
            As `solve_instance`.
        """
        found = None
        if instance.jobs and _is_plain(self.policy, instance):
            try:
                found = self._from_last(ids, instance, second_stage)
            except (RuntimeError, ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
                _LOG.info("%r starts anew: %s", self.policy, error)
                self._program = None
        if found is not None and found.gap <= ACCURATE:
            return found
        found = solve_instance(self.policy, instance, pairs=pairs, second_stage=second_stage)
        return replace(found, stats={**found.stats, "path": COLD})

    def _from_last(
        self, ids: Sequence[Hashable], instance: Instance, second_stage: bool
    ) -> Solution | None:
        """Solve in the program of the last solve; ``None`` for too many rows and other forms."""
        reduction = reduce(self.policy, instance, True, None)
        rows = reduction.believed
        form = read(self.policy, rows) if rows.jobs <= core.PROGRAM_ROWS else None
        if form is None or form.kind not in _EMPTY:
            return None
        jobs = core.jobs_of(rows, form.limits)
        _, first = np.unique(reduction.class_of, return_index=True)
        answer = self._by_program([ids[place] for place in first], form, jobs, second_stage)
        return _solution(reduction, core.restored(answer, jobs, rows))

    def _by_program(
        self, ids: Sequence[Hashable], form: Form, jobs: Jobs, second_stage: bool
    ) -> Answer:
        """Solve in the program that stays, a new one where rows or resources do not fit into it."""
        kept, shape = self._program, (jobs.m, jobs.capacity.size)
        if kept is not None and (len(ids) > kept.n or (kept.m, kept.R) != shape):
            kept = None
        if kept is None:
            self._slot_of = {}
        size = len(ids) + len(ids) // 4 + 4 if kept is None else kept.n
        taken = self._slots(ids, size)
        padded = _padded(jobs, taken, size)
        self._program = Program(padded) if kept is None else kept
        own = _PaddedForm.of(form, taken, size)
        answer = core.optimum(own, padded, second_stage, self._program)
        answer.X = answer.X[taken]
        return answer

    def _slots(self, ids: Sequence[Hashable], size: int) -> Ints:
        """Return the slot of each row: its own if it has one, else one that is free."""
        known = self._slot_of
        kept = {job: known[job] for job in ids if job in known}
        free = iter(sorted({*range(size)} - {*kept.values()}))
        self._slot_of = {job: kept[job] if job in kept else next(free) for job in ids}
        return np.fromiter(self._slot_of.values(), np.intp, len(ids))


def _is_plain(policy: Policy, instance: Instance) -> bool:
    """Whether an instance has hard resources only, rows of single jobs, and a level to itself."""
    shared = policy.integral or policy.space_sharing or getattr(policy, "lexicographic", False)
    return instance.solo and not shared and instance.hard.size == instance.capacity.size


def _solution(reduction: Reduction, answer: Answer) -> Solution:
    """Bring an answer about rows back to the jobs."""
    full = reduction.full
    return Solution(
        X=reduction.expand(answer.X)[0],
        throughput=reduction.throughput(answer.X),
        objective=answer.objective,
        prices=answer.prices,
        gap=answer.gap,
        stats={
            "jobs": full.jobs,
            "classes": reduction.believed.jobs,
            "options": full.options,
            "solver": answer.path,
            "path": WARM,
        },
    )


class _PaddedForm(Form):
    """A form over slots, of which some are empty."""

    taken: Ints

    @classmethod
    def of(cls, form: Form, taken: Ints, size: int) -> _PaddedForm:
        """Put the numbers of a form into slots."""
        numbers = _put(form.k, taken, size, _EMPTY[form.kind]), _put(form.a, taken, size, 0.0)
        padded = cls(form.kind, *numbers, form.maximise, form.constant)
        padded.taken = taken
        return padded

    def level_of(self, u: Floats) -> float:
        """See `Form.level_of`."""
        return Form(self.kind, self.k[self.taken], self.a[self.taken]).level_of(u[self.taken])

    def value(self, u: Floats, X: Floats | None = None) -> float:
        """See `Form.value`."""
        own = self.k[self.taken], self.a[self.taken]
        return Form(self.kind, *own, self.maximise, self.constant).value(u[self.taken])


def _padded(jobs: Jobs, taken: Ints, size: int) -> Jobs:
    """Return jobs in slots; in an empty one there is no job, and no speed."""
    extra = None
    if len(jobs.extra):
        extra = np.stack([_put(each, taken, size, 0.0) for each in jobs.extra])
    return Jobs(
        _put(jobs.T, taken, size, 0.0),
        _put(jobs.held, taken, size, 1.0),
        jobs.kind,
        jobs.capacity,
        _put(jobs.count, taken, size, 0.0),
        _put(jobs.reference, taken, size, 1.0),
        extra,
    )


def _put(values: Floats, taken: Ints, size: int, empty: float) -> Floats:
    """Return rows in slots, `empty` where there is none."""
    full = np.full((size, *values.shape[1:]), empty)
    full[taken] = values
    return full
