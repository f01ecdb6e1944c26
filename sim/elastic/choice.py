"""Options of elastic jobs by a policy that decides in whole numbers.

A policy that lets a job wait for very long though others have GPUs to spare is warned of.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.policies import Instance, solve_instance
from apportion.policies.elastic_values import fair_throughput, reallocation_factor
from apportion.policies.problem import Problem
from apportion.sim.solves.standing import Answer, Solves

if TYPE_CHECKING:
    from apportion.mechanism.configurations import Asked, GangOptions
    from apportion.mechanism.job_table import JobTable
    from apportion.mechanism.scheduler import GangProgress
    from apportion.policies import Policy
    from apportion.sim.elastic.trainers import Trainers
    from apportion.types import Floats, Ints


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
