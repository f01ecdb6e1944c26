"""What policies under leases are told of speeds, and learn of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from tests.seeds import sampled

import apportion as ap
from apportion.cluster import Cluster
from apportion.sim import Workload, generate_rack_workload
from apportion.sim.beliefs import Agnostic, Told
from apportion.sim.beliefs.estimated import Estimated

if TYPE_CHECKING:
    from apportion.sim.beliefs import Beliefs, Believed
    from apportion.sim.engine.true_state import TrueState

THREE = Cluster.of_racks({"v100": 1, "p100": 1, "k80": 1}, machines_per_rack=2, gpus_per_machine=4)
TWO = Cluster.of_racks({"v100": 2, "k80": 2}, machines_per_rack=2, gpus_per_machine=4)


def single_jobs(seed: int, jobs: int = 24) -> Workload:
    return ap.generate_workload(jobs=jobs, seed=seed, jobs_per_hour=8, scale_factors="gavel")


def rack_jobs(seed: int, jobs: int = 15) -> Workload:
    """Gangs of models that the network slows down, on two types of which no two are alike."""
    load = generate_rack_workload(jobs=jobs, seed=seed, max_scale_factor=16)
    speed = load.throughputs.iloc[:, 0]
    models = speed.index.get_level_values("job_type")
    slower = np.linspace(0.2, 1.3, len(models.unique()))[pd.factorize(models)[0]]
    return replace(load, throughputs=pd.DataFrame({"v100": speed, "k80": speed * slower}))


def simulated(load: Workload, cluster: Cluster = THREE, **told: Any) -> ap.Run:
    network = "none" if cluster is THREE else "table1"
    how: dict[str, Any] = {"mechanism": "leases", "network": network, "lease_seconds": 1800.0}
    return ap.simulate("max_min_fairness", load, cluster, **how, **told)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("load", "cluster"), sampled([(rack_jobs(1), TWO), (single_jobs(1), THREE)], 2)
)
def test_what_is_told_by_default_is_the_truth(load: Workload, cluster: Cluster) -> None:
    ways: list[dict[str, Any]] = [{}, {"speeds": "told"}, {"beliefs": Told()}]
    runs = [simulated(load, cluster, **told) for told in ways]
    assert runs[0].jobs.equals(runs[1].jobs)
    assert runs[0].jobs.equals(runs[2].jobs)
    assert runs[0].settings["speeds"] == "told"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("load", "cluster"),
    sampled([(rack_jobs(2), TWO), (single_jobs(2), THREE), (rack_jobs(3), TWO)], 3),
)
def test_who_knows_every_type_by_heart_does_as_well_as_who_is_told(
    load: Workload, cluster: Cluster
) -> None:
    types = len(load.throughputs.index.unique("job_type"))
    known = Estimated(references=types, rows="type", noise=1e-4, optimism=0.0)
    told, estimated = simulated(load, cluster), simulated(load, cluster, beliefs=known)
    expected = told.summary()["mean_jct_s"]
    assert estimated.summary()["mean_jct_s"] == pytest.approx(expected, rel=0.02)


@pytest.mark.slow
def test_estimates_are_worth_it() -> None:
    ratios = []
    for seed in range(2):
        load = single_jobs(seed)
        ways: list[dict[str, Any]] = [{}, {"speeds": "estimated"}]
        ways += [{"speeds": "estimated", "optimism": 0.0}, {"speeds": "agnostic"}]
        jct = [simulated(load, seed=seed, **told).summary()["mean_jct_s"] for told in ways]
        ratios.append(np.divide(jct[1:], jct[0]))
    hopeful, expected, agnostic = np.mean(ratios, axis=0)
    assert hopeful < 1.06
    assert expected < 1.09
    assert agnostic > max(hopeful, expected) + 0.1


class Kept:
    """Knowledge that can be looked at when the run is over."""

    def __init__(self, beliefs: Beliefs) -> None:
        self._beliefs = beliefs

    def start(self, truth: TrueState, workload: Workload, cluster: Cluster) -> Believed:
        self.true, self.held_s = truth.speed.copy(), truth.held_s
        self.believed = self._beliefs.start(truth, workload, cluster)
        return self.believed


def test_what_ran_at_any_tier_tells_the_speed_of_the_type() -> None:
    """Up to noise: what the network has cost at the placements is taken out again."""
    kept = Kept(Estimated(noise=0.01, seed=3))
    run = simulated(rack_jobs(4), TWO, beliefs=kept)
    assert (run.jobs[["machine_s", "rack_s"]] > 0).any().all()
    ran = kept.held_s > 60
    off = np.log(kept.believed.speed[ran] / kept.true[ran])
    # What is told changes only once it is off by more than 5 %.
    assert np.abs(off).max() < 0.05 + 4 * 0.01
    never = (kept.held_s == 0) & (kept.true > 0)
    assert (kept.believed.spread(np.arange(len(ran)))[never] > 0.02).all()


@pytest.mark.thorough
@pytest.mark.parametrize("speeds", ["estimated", "agnostic"])
def test_jobs_compute_as_fast_as_they_are_whatever_is_believed(speeds: str) -> None:
    load = rack_jobs(5)
    run, again = (simulated(load, TWO, speeds=speeds) for _ in range(2))
    assert run.jobs.equals(again.jobs)
    ap.check_schedule(run, load, TWO)
    steps = (run.received * load.throughput_of(TWO)).sum(axis=1)
    assert (steps >= load.jobs["total_steps"] * (1 - 1e-6)).all()


def test_a_scheduler_is_told_nothing() -> None:
    with pytest.raises(ap.InputError, match="'tiresias' asks for no speeds"):
        ap.simulate("tiresias", rack_jobs(0, jobs=2), TWO, beliefs=Agnostic())
