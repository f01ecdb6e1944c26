"""Who chooses options of elastic jobs beside a policy by itself: Lyra in two phases, and rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from apportion.errors import InputError, written
from apportion.mechanism.elastic import ElasticJobs, ElasticRule, base_workers
from apportion.mechanism.job_table import read_only
from apportion.own_code import answered_by
from apportion.sim.elastic.choice import PolicyChoice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.mechanism.configurations import Asked, GangOptions
    from apportion.mechanism.job_table import JobTable
    from apportion.mechanism.scheduler import GangProgress
    from apportion.policies import Instance, Policy
    from apportion.sim.elastic.rigid import WithRigid
    from apportion.types import Bools, Floats, Ints


def choice_of(
    decider: Any, jobs: JobTable, options: GangOptions, trainers: WithRigid, ids: Sequence[Any]
) -> PolicyChoice:
    """Return what chooses for a policy or a rule, of jobs of these names; see `PolicyChoice`."""
    if hasattr(decider, "choose"):
        return RuleChoice(decider, jobs, options, trainers, ids)
    kind = LyraChoice if getattr(decider, "base_workers_first", False) else PolicyChoice
    return kind(decider, jobs, options, trainers)


_SHOWN = {
    "weight": "weight",
    "fair_speed": "fair_throughput",
    "reallocation_factor": "reallocation_factor",
    "deadline_s": "deadline_s",
    "elapsed_s": "elapsed_s",
}
"""What rules are shown as policies are told it, with the name of its column."""


class LyraChoice(PolicyChoice):
    """Lyra's two phases: base workers, the shortest job first, then what extra workers save.

    Base workers of a job are the fewest GPUs with which it runs; those of a rigid job are its own.
    Jobs that run keep theirs before those that wait.
    """

    def _decided(self, asked: Asked) -> Ints:
        posed = self._posed(asked)
        speed, gpus = posed.throughput, self._options.gpus
        fewest = np.where(speed > 0, gpus, np.inf).min(axis=1, initial=np.inf)
        served = self._served(asked, posed, fewest)
        chosen = np.full(asked.jobs.size, -1, dtype=np.intp)
        if served.any():
            columns = {name: values[served] for name, values in posed.columns.items()}
            columns["scale_factor"] = fewest[served]
            part = self._instance(speed[served], asked, columns)
            chosen[served] = self._solved(part, asked.jobs[served])
        return chosen

    def _served(self, asked: Asked, posed: Instance, fewest: Floats) -> Bools:
        """Return who has its base workers; who must keep what it has, has that."""
        speed, options = posed.throughput, self._options
        need = np.repeat(fewest[:, None], asked.capacity.size, axis=1)
        seconds = np.full(need.shape, np.inf)
        left = posed.columns["steps_remaining"]
        for kind in range(asked.capacity.size):
            base = np.where((options.gpus == fewest[:, None]) & (options.kind == kind), speed, 0.0)
            fastest = base.max(axis=1, initial=0.0)
            np.divide(left, fastest, out=seconds[:, kind], where=fastest > 0)
        pinned = np.flatnonzero(asked.pinned)
        kept = asked.current[pinned]
        seconds[pinned] = np.inf
        seconds[pinned, options.kind[kept]] = 0.0
        need[pinned, options.kind[kept]] = options.gpus[kept]
        return base_workers(seconds, need, asked.capacity, asked.current >= 0)


class RuleChoice(PolicyChoice):
    """Asks a rule, which is shown what a policy would be told, and the GPU-time of each job."""

    def __init__(
        self,
        rule: ElasticRule,
        jobs: JobTable,
        options: GangOptions,
        trainers: WithRigid,
        ids: Sequence[Any],
    ) -> None:
        # Of the policy it has but the label: what it is asked stands in `_decided`.
        super().__init__(cast("Policy", rule), jobs, options, trainers)
        self._rule, self._rigid, self._ids = rule, trainers.rigid, ids
        self.attained: Floats = np.zeros(jobs.jobs)

    def _decided(self, asked: Asked) -> Ints:
        posed, jobs, options = self._posed(asked), asked.jobs, self._options
        free = ~asked.pinned
        kept = asked.current[asked.pinned]
        taken = np.bincount(options.kind[kept], options.gpus[kept], asked.capacity.size)
        shown = ElasticJobs(
            posed.throughput[free],
            read_only(options.kind),
            read_only(options.gpus),
            asked.capacity - taken.astype(np.intp),
            asked.current[free],
            self._jobs.remaining[jobs[free]],
            self._jobs.arrival_s[jobs[free]],
            self.attained[jobs[free]],
            self._rigid[jobs[free]],
            **{field: posed.columns[name][free] for field, name in _SHOWN.items()},
            facts={name: values[jobs[free]] for name, values in self._jobs.facts.items()},
        )
        chosen = asked.current.copy()
        chosen[free] = self._checked(self._rule.choose(shown), jobs[free])
        return chosen

    def _checked(self, answer: Any, jobs: Ints) -> Ints:
        """Return the places that a rule has answered, if they can be.

        Raises
        ------
        InputError
            If there is not one for each job, or one is that of no option; the job is named.
        """
        name, options = f"The rule {self._rule.label!r}", self._options.count
        valid = f"places of options from 0 to {options - 1}, -1 for none."
        valid += answered_by(self._rule, "choose")
        try:
            places = np.asarray(answer)
        except ValueError as error:  # lists of several lengths
            raise InputError(f"{name} answers {written(answer)}, no array; {valid}") from error
        if places.shape != jobs.shape:
            raise InputError(
                f"{name} answers {written(answer)}; choose(jobs) must return an array of "
                f"{jobs.size} places, one for each job: {valid}"
            )
        # One by one where not all are whole numbers, so that the first that is none is named.
        whole = places.dtype.kind in "iu"
        for job, place in zip(jobs.tolist(), places.tolist(), strict=True):
            if not whole or not -1 <= place < options:
                raise InputError(
                    f"{name} answers {written(place)} for job {written(self._ids[job])}; "
                    f"choose(jobs) must return an array of whole numbers: {valid}"
                )
        return np.asarray(places, dtype=np.intp)

    def observe(self, ran: GangProgress) -> None:
        """Let jobs learn, and count GPU-time, that of pauses included."""
        super().observe(ran)
        held = ran.held_s * ran.times * ran.gangs.gpus
        np.add.at(self.attained, ran.gangs.job, held)
