"""The runtime of iterations under a scheduler that decides at rounds only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

import apportion as ap
from apportion.mechanism.devices import Devices
from apportion.mechanism.gates import GATES
from apportion.mechanism.scheduler import Decision, Gangs
from apportion.sim.contention import ETHERNET_10G, PlainEngine, all_reduced
from apportion.sim.contention.runtime import Iterating, LinkMap
from apportion.sim.engine import TrueState

if TYPE_CHECKING:
    from apportion.sim.about import AboutRun, Parts

CLUSTER = ap.Cluster({"v100": 4}, gpus_per_machine=2)
COMPUTE_S, SIZE = 1.0, 1e9
ALONE_S = COMPUTE_S + ETHERNET_10G.startup_s + SIZE * ETHERNET_10G.s_per_byte


def iterating(truth: TrueState) -> Iterating:
    links = LinkMap(Devices.of(CLUSTER).layout)
    engine = PlainEngine(links.gpus, links.links, ETHERNET_10G, GATES.of("at_most_1"))
    work = all_reduced(0.25, 0.75, SIZE, startup_s=ETHERNET_10G.startup_s)
    return Iterating(truth, engine, links, lambda job, option, servers: work)


def jobs(gpus: list[int], steps: list[float]) -> ap.Workload:
    index = pd.MultiIndex.from_tuples([("VGG-16", size) for size in sorted(set(gpus))])
    index.names = ["job_type", "scale_factor"]
    table = pd.DataFrame({"job_type": "VGG-16", "scale_factor": gpus, "total_steps": steps})
    return ap.Workload("some", table, pd.DataFrame({"v100": 1 / COMPUTE_S}, index))


class IteratingRounds(ap.Rounds):
    """Rounds with iterations in the place of the fluid runtime."""

    def parts(self, decider: Any, about: AboutRun) -> Parts:
        made: Parts = super().parts(decider, about)
        return made._replace(runtime=iterating(about.truth))


def run(workload: ap.Workload, policy: str = "fifo", **settings: Any) -> ap.Run:
    return ap.simulate(policy, workload, CLUSTER, mechanism=IteratingRounds(**settings))


def test_gangs_that_go_on_lose_nothing_between_rounds() -> None:
    done = run(jobs([4], [50.0]), seconds=7.3).jobs
    assert done["jct_s"].tolist() == pytest.approx([50 * ALONE_S], rel=1e-9)
    assert done["preemptions"].tolist() == [0]
    local = run(jobs([2], [50.5]), seconds=7.3).jobs
    assert local["jct_s"].tolist() == pytest.approx([51 * COMPUTE_S])  # the last one is a whole one


def test_gangs_that_are_stopped_lose_what_they_have_begun() -> None:
    """Two take turns, 5 s each: whole iterations of 1.85 s count, two in every round;
    the round in which the first is done is over then."""
    workload = jobs([4, 4], [8.0, 8.0])
    fair = run(workload, "max_min_fairness", seconds=5.0)
    assert 2 * ALONE_S < 5 < 3 * ALONE_S
    jct_s = sorted(fair.jobs["jct_s"])
    assert jct_s == pytest.approx([30 + 2 * ALONE_S, 30 + 4 * ALONE_S])


def test_a_start_costs_its_time() -> None:
    done = run(jobs([4], [3.0]), preemption_overhead_seconds=2.5).jobs
    assert done["jct_s"].tolist() == pytest.approx([2.5 + 3 * ALONE_S])


def test_pairs_are_refused() -> None:
    workload = jobs([2], [3.0])
    truth = TrueState(workload, CLUSTER)
    runtime = iterating(truth)
    one = np.zeros(1, dtype=np.intp)
    gangs = Gangs(one, one, one, one + 2, mate=one)
    with pytest.raises(ap.InputError, match="without space sharing"):
        runtime.apply(0.0, Decision(gangs, np.ones(1, dtype=bool)))
