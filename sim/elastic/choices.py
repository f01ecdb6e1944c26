"""Who chooses options of elastic jobs beside a policy by itself: Lyra in two phases, and rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from apportion.mechanism.elastic_deciders import ElasticJobs, ElasticRule
from apportion.mechanism.elastic_rules import base_workers
from apportion.plain_arrays import array_of, plain
from apportion.policies.whole.remaining_time import Lyra
from apportion.sim.elastic.choice import PolicyChoice

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.mechanism.configurations import Asked, GangOptions
    from apportion.mechanism.job_table import JobTable
    from apportion.mechanism.scheduler import Ran
    from apportion.policies import Instance, Policy
    from apportion.sim.elastic.rigid import WithRigid

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]
    Bools = NDArray[np.bool_]

__all__ = ["LyraChoice", "RuleChoice", "choice_of"]


def choice_of(
    decider: Policy | ElasticRule, jobs: JobTable, options: GangOptions, trainers: WithRigid
) -> PolicyChoice:
    """Return what chooses for a policy or a rule; see `PolicyChoice`."""
    if isinstance(decider, ElasticRule):
        return RuleChoice(decider, jobs, options, trainers)
    kind = LyraChoice if isinstance(decider, Lyra) else PolicyChoice
    return kind(decider, jobs, options, trainers)


_SHOWN = ("weight", "fair_throughput", "reallocation_factor")
"""Columns that rules are shown as policies are told them."""


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
            chosen[served] = self._solved(part)
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
        self, rule: ElasticRule, jobs: JobTable, options: GangOptions, trainers: WithRigid
    ) -> None:
        # Of the policy it has but the label: what it is asked stands in `_decided`.
        super().__init__(cast("Policy", rule), jobs, options, trainers)
        self._rule, self._rigid = rule, trainers.rigid
        self.attained: Floats = np.zeros(jobs.jobs)

    def _decided(self, asked: Asked) -> Ints:
        posed, jobs, options = self._posed(asked), asked.jobs, self._options
        free = ~asked.pinned
        kept = asked.current[asked.pinned]
        taken = np.bincount(options.kind[kept], options.gpus[kept], asked.capacity.size)
        shown = ElasticJobs(
            posed.throughput[free],
            options.kind,
            options.gpus,
            asked.capacity - taken.astype(np.intp),
            asked.current[free],
            self._jobs.remaining[jobs[free]],
            self._jobs.arrival_s[jobs[free]],
            self.attained[jobs[free]],
            self._rigid[jobs[free]],
            *(posed.columns[name][free] for name in _SHOWN),
        )
        chosen = asked.current.copy()
        chosen[free] = self._rule.choose(shown)
        return chosen

    def observe(self, ran: Ran) -> None:
        """Let jobs learn, and count GPU-time, that of pauses included."""
        super().observe(ran)
        held = ran.held_s * ran.times * ran.gangs.gpus
        np.add.at(self.attained, ran.gangs.job, held)

    def state(self) -> dict[str, Any]:
        """Return counts, GPU-time, and what jobs have learnt, for JSON."""
        return super().state() | {"attained": plain(self.attained)}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up a state of `state`."""
        super().restore(state)
        self.attained = array_of(state["attained"])
