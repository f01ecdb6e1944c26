"""Options of elastic jobs by a policy that decides in whole numbers, by Lyra's phases, by rules.

A policy that lets a job wait for very long though others have GPUs to spare is warned of.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from apportion.errors import InputError, written
from apportion.mechanism.elastic import ElasticJobs, ElasticRule, base_workers
from apportion.mechanism.job_table import read_only
from apportion.own_code import answered_by
from apportion.policies import Instance, solve_instance
from apportion.policies.elastic_values import fair_throughput, reallocation_factor
from apportion.policies.problem import Problem
from apportion.sim.solves.standing import Answer, Solves

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.mechanism.configurations import Asked, GangOptions
    from apportion.mechanism.job_table import JobTable
    from apportion.mechanism.scheduler import GangProgress
    from apportion.policies import Policy
    from apportion.sim.elastic.trainers import Trainers
    from apportion.types import Bools, Floats, Ints


LONG = 120
"""Intervals in a row after which a job that could have had GPUs of another is said to starve."""

logger = logging.getLogger(__name__)


class StarvationWatch:
    """Counts for how many decisions in a row each job was left out, and warns once.

    Parameters
    ----------
    policy
        What the message calls it.
    jobs
        How many there are.
    """

    def __init__(self, policy: str, jobs: int) -> None:
        self._policy, self._left_out = policy, np.zeros(jobs, dtype=np.int64)
        self._warned = False

    def note(self, now_s: float, jobs: Ints, gpus: Ints, fewest: Floats) -> None:
        """Take a decision down.

        Parameters
        ----------
        now_s
            When it was made.
        jobs
            Numbers of those that it was about.
        gpus
            What each got.
        fewest
            With how many each can run.
        """
        spare = gpus.max(initial=0) > fewest
        self._left_out[jobs] = np.where((gpus == 0) & spare, self._left_out[jobs] + 1, 0)
        longest = int(self._left_out[jobs].max(initial=0))
        if longest >= LONG and not self._warned:
            self._warned = True
            job = int(jobs[self._left_out[jobs].argmax()])
            logger.warning(
                "Policy %s has left job %d (in order of arrival) without GPUs in %d decisions in a "
                "row, up to %.0f s, while another job holds more GPUs than this one needs. A job "
                "may starve: what a first GPU is worth to it is less than what more are worth to "
                "others. With Sia, a penalty of 2 or more prevents that.",
                *(self._policy, job, longest, now_s),
            )


_GAP = 1e-6
"""Relative: far below what goodputs are known to, and decisions are made each minute."""


class PolicyChoice:
    """Asks a policy; see `apportion.mechanism.configurations.OptionChoice`.

    The policy is told the goodputs of the options that a job may have now, of all options in
    ``fair_throughput``, the option that it has, and the part of its speed that a change leaves it.

    Parameters
    ----------
    policy
        Decides in whole numbers.
    jobs
        What is told of the jobs.
    options
        What they may have.
    trainers
        Tell the goodputs.

    Attributes
    ----------
    fair
        What each job would make with a fair share of the GPUs, as it was reckoned last, progress
        per second, shape (jobs,).
    """

    def __init__(
        self, policy: Policy, jobs: JobTable, options: GangOptions, trainers: Trainers
    ) -> None:
        self._policy, self._jobs = policy, jobs
        self._options, self._trainers = options, trainers
        self.asked = Solves(policy.label)
        self._watch = StarvationWatch(policy.label, jobs.jobs)
        self._fewest: Floats = np.empty(0)
        self.fair: Floats = np.zeros(jobs.jobs)

    def choose(self, asked: Asked) -> Ints:
        """Return the option of every active job, -1 for none.

        Raises
        ------
        SolveError
            If the policy fails.
        """
        with self.asked.at(asked.now_s, asked.jobs.size):
            option = self._decided(asked)
        gpus = np.where(option >= 0, self._options.gpus[option], 0)
        self._watch.note(asked.now_s, asked.jobs, gpus, self._fewest)
        return option

    def _decided(self, asked: Asked) -> Ints:
        return self._solved(self._posed(asked), asked.jobs)

    def _solved(self, posed: Instance, jobs: Ints) -> Ints:
        """Return the place of the option of every job that the policy chooses, -1 for none."""
        solution = solve_instance(self._policy, posed, group=False, gap=_GAP)
        labels = {"accelerator": self._options.kind, "gpus": self._options.gpus}
        self.asked.noted(Answer(jobs, posed, solution, labels))
        X = np.asarray(solution.X)
        return np.where((X > 0.5).any(axis=1), X.argmax(axis=1), -1)

    def observe(self, ran: GangProgress) -> None:
        """Let jobs learn from what ran."""
        self._trainers.observe(ran)

    def _posed(self, asked: Asked) -> Instance:
        """Pose the problem over the options that each job may have."""
        jobs = asked.jobs
        known = self._trainers.goodputs(jobs.tolist())
        columns = self._columns(asked)
        fair = fair_throughput(Problem(self._instance(known, asked, columns)))
        gpus = self._options.gpus
        fewest = self._fewest = np.where(known > 0, gpus, np.inf).min(axis=1, initial=np.inf)
        open_ = gpus <= np.maximum(asked.most, fewest)[:, None]
        now = asked.current >= 0
        open_[now, asked.current[now]] = True
        # Growth towards a fair share: where no option reaches it, the best that is known counts.
        fair = np.where(fair > 0, fair, known.max(axis=1))
        self.fair[jobs] = fair
        columns |= {"fair_throughput": fair}
        return self._instance(np.where(open_, known, 0.0), asked, columns)

    def _instance(self, speed: Floats, asked: Asked, columns: dict[str, Any]) -> Instance:
        options = self._options
        return Instance.of_options(
            speed,
            options.gpus,
            asked.capacity,
            option_accelerator=options.kind,
            columns=columns,
            resource_names=self._jobs.accelerators,
            texts=self._jobs.texts,
        )

    def _columns(self, asked: Asked) -> dict[str, Any]:
        columns = self._jobs.columns(asked.now_s)
        age_s = columns["elapsed_s"]
        return {
            **columns,
            "scale_factor": self._jobs.scale[asked.jobs],
            "current_option": asked.current,
            "pinned": asked.pinned,
            "reallocation_factor": reallocation_factor(
                age_s, asked.restarts, asked.restart_s, started=asked.started
            ),
        }


def choice_of(
    decider: Any, jobs: JobTable, options: GangOptions, trainers: Trainers, ids: Sequence[Any]
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
        trainers: Trainers,
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
