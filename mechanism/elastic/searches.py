"""Optimus as published: a greedy rule, where the policy ``optimus`` is the program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from apportion.mechanism.elastic.rule import ElasticJobs, ElasticRule, seconds_left

if TYPE_CHECKING:
    import pandas as pd

    from apportion.types import Floats, Ints


@dataclass(frozen=True, repr=False)
class OptimusGreedy(ElasticRule):
    """Optimus as published: one worker for each job in turn, then the largest marginal gain.

    Jobs come by arrival; each gets its option of fewest GPUs, on the fastest type that has them.
    Then a job goes on to its next larger option on its type, again and again, the one whose
    remaining time falls most per GPU::

        gain = (remaining seconds now - then) / more GPUs

    until no gain is above 0 or no GPU is left. Where one more GPU gains nothing and two would, it
    stops. The program of the same aim is the policy ``optimus``.
    """

    name: ClassVar[str] = "optimus_greedy"
    source: ClassVar[str] = "Optimus (Peng et al., EuroSys 2018), section 4.1"
    rule: ClassVar[str] = "one worker each, then each next one where it cuts remaining time most"

    def knows_durations(self, jobs: pd.DataFrame) -> bool:
        """Whether it goes by how long jobs will run: it does."""
        return True

    def choose(self, jobs: ElasticJobs) -> Ints:
        """Share out the GPUs, largest gain first; of equals the first job leads."""
        seconds, left = seconds_left(jobs), jobs.capacity.copy()
        chosen = np.full(len(seconds), -1, dtype=np.intp)
        # Jobs of one time stay in the order of submission.
        for job in np.argsort(jobs.arrival_s, kind="stable").tolist():
            fits = np.isfinite(seconds[job]) & (jobs.gpus <= left[jobs.kind])
            if fits.any():
                least = fits & (jobs.gpus == jobs.gpus[fits].min())
                chosen[job] = int(np.where(least, seconds[job], np.inf).argmin())
                left[jobs.kind[chosen[job]]] -= jobs.gpus[chosen[job]]
        while True:
            steps = [
                _next_step(jobs, seconds, job, int(chosen[job]), left) for job in range(len(chosen))
            ]
            gains = np.array([gain for gain, _ in steps])
            if not gains.size or not gains.max() > 0:
                return chosen
            job = int(gains.argmax())
            option = steps[job][1]
            left[jobs.kind[option]] -= jobs.gpus[option] - jobs.gpus[chosen[job]]
            chosen[job] = option


def _next_step(
    jobs: ElasticJobs, seconds: Floats, job: int, own: int, left: Ints
) -> tuple[float, int]:
    """Return what the next larger option of a job saves per GPU, and that option."""
    if own < 0:
        return 0.0, -1
    more = jobs.gpus - jobs.gpus[own]
    larger = (jobs.kind == jobs.kind[own]) & (more > 0) & np.isfinite(seconds[job])
    if not larger.any():
        return 0.0, -1
    option = int(np.where(larger, more, np.iinfo(np.intp).max).argmin())
    if more[option] > left[jobs.kind[own]]:
        return 0.0, -1
    return float((seconds[job, own] - seconds[job, option]) / more[option]), option
