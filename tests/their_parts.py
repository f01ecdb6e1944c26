"""Parts of a policy, placement, queue, scheduler, network and trace format of another package.

`test_installed_parts` lays this file beside metadata as installers write it; nothing imports it
here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import cvxpy as cp
import numpy as np
import pandas as pd

import apportion as ap
from apportion.mechanism.placements import Strategy
from apportion.sim.traces.assemble import from_durations
from apportion.sim.traces.read import TraceFormat
from apportion.sim.traces.table import parse_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from apportion.mechanism.devices import Devices
    from apportion.mechanism.job_table import JobTable
    from apportion.mechanism.placements import Gang
    from apportion.policies import Problem
    from apportion.sim.traces.assemble import ReadOptions
    from apportion.sim.traces.text import TextFile


@dataclass(frozen=True)
class Total(ap.Policy):
    """Most steps/s in total."""

    name = "their_policy"

    def objective(self, p: Problem) -> cp.Maximize:
        """State the steps/s of all jobs."""
        return cp.Maximize(p.total(p.throughput))


class Highest(Strategy):
    """The devices of the highest numbers."""

    name = "their_placement"

    def choose(self, gang: Gang, devices: Devices) -> Sequence[int] | None:
        """Choose from behind."""
        free = devices.free_for(gang)
        numbers = sorted(
            int(each) for machine in free.emptiest_first() for each in free.free_on(machine)
        )
        return numbers[-gang.gpus :] if len(numbers) >= gang.gpus else None


@dataclass(frozen=True)
class LastFirst(ap.QueueScheduler):
    """Whoever came last is served first."""

    name = "their_queue"

    def queue(self, jobs: JobTable, now_s: float) -> Iterable[tuple[int, Iterable[int]]]:
        """Go through the jobs from the last."""
        for job in sorted(jobs.active.tolist(), reverse=True):
            yield job, np.argsort(-jobs.speed[job], kind="stable")


class Half:
    """A step on more than one GPU takes half as long again."""

    name = "their_network"

    def overhead(self, job_type: str, shape: tuple[tuple[int, ...], ...]) -> float:
        """Count the GPUs of the racks' machines."""
        return 0.5 if sum(map(sum, shape)) > 1 else 0.0


def half(profiles: Mapping[str, object]) -> Half:
    """Make the network model."""
    return Half()


def read_minutes(file: TextFile, options: ReadOptions) -> ap.Workload:
    """Read a csv of minutes."""
    table = parse_table(file)
    jobs = pd.DataFrame(
        {
            "arrival_s": 60 * table.numbers("came"),
            "duration_s": 60 * table.numbers("ran"),
            "scale_factor": table.numbers("took", "GPUs, at least 1", least=1, whole=True),
        }
    )
    return from_durations(file, jobs.reset_index(drop=True), options)


their_queue = LastFirst()
their_scheduler = ap.OfferScheduler("their_scheduler")
their_format = TraceFormat("minutes", ("came", "ran", "took"), read_minutes)
