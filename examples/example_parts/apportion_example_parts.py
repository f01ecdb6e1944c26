"""A part of each kind, as a package of one's own offers them by entry points.

Copy the folder, keep what you need, and rename it; ``pip install -e .`` makes the names known. What
each kind of part has to do is in CONTRIBUTING.md; `apportion.testing` checks that it does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import cvxpy as cp
import numpy as np
import pandas as pd

import apportion as ap
from apportion.elastic import ElasticRule
from apportion.mechanism.gates import HOLD, START
from apportion.mechanism.leases.rules import NoWait
from apportion.mechanism.placements import Strategy
from apportion.mechanisms.settings import MechanismSettings, described
from apportion.report import Section
from apportion.sim.network import Exchange, Layer, ModelProfile
from apportion.sim.network.models.trained import TrainedModel
from apportion.sim.network.topology.named import leaf_spine
from apportion.sim.traces.assemble import from_durations
from apportion.sim.traces.read import TraceFormat
from apportion.sim.traces.table import parse_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from apportion.elastic import ElasticJobs
    from apportion.mechanism.devices import Devices
    from apportion.mechanism.gates import Flow, LinksView
    from apportion.mechanism.job_table import JobTable
    from apportion.mechanism.leases.jobs import WaitingJobs
    from apportion.mechanism.orders import Demand
    from apportion.mechanism.placements import Gang
    from apportion.policies import Problem
    from apportion.sim.network.topology import Topology
    from apportion.sim.traces.assemble import ReadOptions
    from apportion.text_files import TextFile


@dataclass(frozen=True)
class Total(ap.Policy):
    """Most steps/s in total.

    The problem::

        max over X of sum of throughput
    """

    name = "example_total"
    traits = frozenset({"depends_on_step_size"})

    heterogeneity_aware: bool = True

    def objective(self, p: Problem) -> cp.Maximize:
        """State the steps/s of all jobs."""
        return cp.Maximize(p.total(p.throughput))


@dataclass(frozen=True)
class LastFirst(ap.QueueScheduler):
    """Whoever came last is served first, on the fastest type that is free."""

    name = "example_queue"

    def queue(self, jobs: JobTable, now_s: float) -> Iterator[tuple[int, Iterable[int]]]:
        """Go through the jobs from the last."""
        for job in sorted(jobs.active.tolist(), reverse=True):
            yield job, np.argsort(-jobs.speed[job], kind="stable")


last_first = LastFirst()


@dataclass(frozen=True, repr=False)
class InOneRack(NoWait):
    """Any machine or rack at once, several racks never, unless no rack holds the gang."""

    rule: ClassVar[str] = "machine or rack, never the network"

    def patience_s(self, waiting: WaitingJobs) -> NDArray[np.float64]:
        """Return 0 for machine and rack, infinity for the network."""
        return np.tile([0.0, 0.0, np.inf], (waiting.job.size, 1))


in_one_rack = ap.OfferScheduler("example_offers", order="fifo", rule=InOneRack())


@dataclass(frozen=True, repr=False)
class OneEach(ElasticRule):
    """Jobs have one GPU each in the order of arrival, the fastest that is left."""

    name = "example_rule"

    def choose(self, jobs: ElasticJobs) -> NDArray[np.intp]:
        """Go through the jobs by arrival."""
        chosen, left = np.full(len(jobs.speed), -1), jobs.capacity.copy()
        for job in np.argsort(jobs.arrival_s, kind="stable"):
            speed = jobs.speed[job] * (jobs.gpus == 1) * (left[jobs.kind] >= 1)
            if speed.any():
                chosen[job] = speed.argmax()
                left[jobs.kind[chosen[job]]] -= 1
        return chosen


one_each = OneEach()


@dataclass(frozen=True, kw_only=True)
class Unhurried(MechanismSettings):
    """Rounds so long that most jobs end within one.

    Its setting may be given by name, ``tea_seconds=900``, and is an option of the command line.
    """

    name: ClassVar[str] = "example_rounds"
    tells_speeds: ClassVar[bool] = True

    tea_seconds: float = described(7200.0, "length of a round")

    def parts(self, decider: Any, about: Any) -> Any:
        """Make those of the rounds of the package."""
        return ap.Rounds(seconds=self.tea_seconds).parts(decider, about)


class Half:
    """A step on more than one GPU takes half as long again."""

    name = "example_network"

    def overhead(self, job_type: str, shape: tuple[tuple[int, ...], ...]) -> float:
        """Count the GPUs of the racks' machines."""
        return 0.5 if sum(map(sum, shape)) > 1 else 0.0


def half(profiles: Mapping[str, object]) -> Half:
    """Make the network model; it needs no profiles."""
    return Half()


class Highest(Strategy):
    """The free devices of the highest numbers."""

    name = "example_placement"

    def choose(self, gang: Gang, devices: Devices) -> Sequence[int] | None:
        """Choose from behind."""
        free = devices.free_for(gang)
        there = sorted(one for each in free.emptiest_first() for one in free.free_on(each))
        return there[-gang.gpus :] if len(there) >= gang.gpus else None


@dataclass(frozen=True, repr=False)
class LargestFirst(ap.Order):
    """Jobs of many GPUs first."""

    rule: ClassVar[str] = "most GPUs first"

    def turn(self, job: Demand) -> tuple[int, int]:
        """Return the GPUs, the most first."""
        return 0, -job.gpus


largest_first = LargestFirst()


class SmallestFirst:
    """A transfer starts if none that is larger is under way on its links."""

    name = "example_gate"

    def decide(self, now_s: float, flow: Flow, links: LinksView) -> float:
        """Hold it while there is a larger one."""
        larger = any(other.size > flow.size for link in flow.links for other in links.on(link))
        return HOLD if larger else START


smallest_first = SmallestFirst()

_LAYER = Layer("all of it", 0.1, 0.1, 0.1, Exchange("all_reduce", 4e8))
model = TrainedModel(ModelProfile("example_model", (_LAYER,)), memory_gb=2.0)


def pairs_of_servers() -> Topology:
    """Return 12 servers of one GPU, two under each switch, whose links up are half as wide."""
    return leaf_spine(
        "example_topology",
        servers=12,
        gpus_per_server=1,
        servers_per_leaf=2,
        server_gbps=25.0,
        oversubscription=2.0,
    )


def read_minutes(file: TextFile, options: ReadOptions) -> ap.Workload:
    """Read a csv of minutes: when jobs came, how long they ran, and the GPUs that they took."""
    table = parse_table(file)
    jobs = pd.DataFrame(
        {
            "arrival_s": 60 * table.numbers("came"),
            "duration_s": 60 * table.numbers("ran"),
            "scale_factor": table.numbers("took", "GPUs, at least 1", least=1, whole=True),
        }
    )
    return from_durations(file, jobs.reset_index(drop=True), options)


minutes = TraceFormat("minutes", ("came", "ran", "took"), read_minutes)


def gpu_hours(comparison: ap.Comparison) -> Section | None:
    """Show the GPU-hours of each policy by job type."""
    jobs = comparison.jobs()
    if "gpu_seconds" not in jobs:
        return None
    hours = jobs.groupby(["policy", "job_type"], sort=False)["gpu_seconds"].sum() / 3600
    return Section("GPU-hours by job type", hours.unstack(0).reset_index())
