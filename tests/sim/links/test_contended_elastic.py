"""Elastic gangs in several machines beside others that share these."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from tests.seeds import sampled

import apportion as ap
from apportion.errors import InputError
from apportion.estimators.goodput import (
    BatchLimits,
    MeasuredApplication,
    MeasuredTraining,
    ModelledSteps,
    StepTimes,
)
from apportion.mechanism.devices import Devices
from apportion.sim.engine import duty_cycle
from apportion.sim.links import ETHERNET_10G, SharedCost
from apportion.sim.network import ContentionNetwork
from apportion.sim.network.models.trained import TABLE_III
from apportion.sim.record import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.usefixtures("free_starts")

CLUSTER = ap.Cluster.of_racks(1, machines_per_rack=4, gpus_per_machine=3, accelerator="v100")
NETWORKS = ("contention", "contention_expected")


def application(name: str, compute_s: float, alone_s: float, steps: float) -> MeasuredApplication:
    """Steps of 4 x 64 samples and no others, which take so long, and synchronise so long."""
    times = StepTimes(alpha_c=compute_s, beta_c=0.0, alpha_n=alone_s)
    training = pd.DataFrame({"progress": [steps], "grad_sqr": 1.0, "grad_var": 1.0})
    return MeasuredApplication(
        *(name, ModelledSteps(name, times, 64), MeasuredTraining(name, {256: training})),
        BatchLimits(256, 256, 64, 64),
    )


def jobs(
    models: Sequence[str], steps: Sequence[float], *, sends: bool = True, arrival_s: Any = 0.0
) -> ap.ElasticWorkload:
    """Gangs of four of which each computes sixteen batches between two all-reduces."""
    names = [f"{model} (batch size {k})" for k, model in enumerate(models)]
    table = pd.DataFrame({"arrival_s": arrival_s, "application": names, "gpus": 4, "batch": 256})
    known = {}
    for name, model, count in zip(names, models, steps, strict=True):
        row, law = TABLE_III[model], ETHERNET_10G
        alone_s = (law.startup_s + law.s_per_byte * row.megabytes * 1e6) * sends
        known[name] = application(name, 16 * sum(row.passes_s()), alone_s, count)
    return ap.ElasticWorkload("gangs of four", table, known)


def elastic(workload: ap.ElasticWorkload, policy: str = "sia", **settings: Any) -> ap.Run:
    free: dict[str, Any] = {"growth": math.inf, "restart_seconds": 0.0, "gang_sizes": "every"}
    return ap.simulate(policy, workload, CLUSTER, **{**free, **settings})


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("policy", sampled(["sia", "pollux", "deepboot"], 3))
def test_elastic_gangs_lose_what_gangs_in_rounds_and_under_leases_lose(
    policy: str, network: str
) -> None:
    what = ["VGG-16", "ResNet-50", "LSTM-PTB"], [500.0, 300.0, 800.0]
    rigid = jobs(*what, sends=False).rigid("v100", 3)
    found = elastic(jobs(*what), policy, network=network).jobs["jct_s"].tolist()
    rounds = ap.simulate("fifo", rigid, CLUSTER, mechanism="rounds", network=network)
    assert found == pytest.approx(rounds.jobs["jct_s"].tolist(), rel=1e-9)
    leases: dict[str, Any] = {"lease_seconds": 1e5, "network": network}
    leased = ap.simulate("fifo", rigid, CLUSTER, mechanism="leases", **leases)
    assert found == pytest.approx(leased.jobs["jct_s"].tolist(), rel=1e-8)
    alone = elastic(jobs(*what), policy).jobs["jct_s"]
    assert (np.array(found) > 1.04 * alone).all()


def test_gangs_in_lockstep_take_what_iterations_take() -> None:
    workload = jobs(["VGG-16"] * 3, [200.0] * 3)
    rigid = jobs(["VGG-16"] * 3, [200.0] * 3, sends=False).rigid("v100", 3)
    own: dict[str, Any] = {"gate": "always", "exclusive": True}
    iterated = (
        ap.simulate("srsf_1", rigid, CLUSTER, placement="consolidated", **own)
        .jobs["jct_s"]
        .tolist()
    )
    found = elastic(workload, network="contention").jobs["jct_s"].tolist()
    row, law = TABLE_III["VGG-16"], ETHERNET_10G
    each_s = 16 * sum(row.passes_s()) + law.startup_s + law.cost(3) * row.megabytes * 1e6
    assert found == pytest.approx(iterated, rel=1e-9)
    assert found == pytest.approx([200 * each_s] * 3, rel=1e-9)


@pytest.mark.parametrize("network", NETWORKS)
def test_nothing_is_passed_over(network: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is steady alone is not beside gangs that come, grow and go."""
    drawn = ap.generate_elastic_workload(5, hours=0.3, seed=2)
    workload = replace(drawn, jobs=drawn.jobs.assign(application="small_vision", batch=128, gpus=2))

    def run() -> ap.Run:
        settings: dict[str, Any] = {"network": network, "interval_seconds": 300.0}
        return ap.simulate("pollux", workload, CLUSTER, **settings)

    skipping = run()
    monkeypatch.setattr(duty_cycle, "_AT_ONCE", 0)
    one_by_one = run()
    pd.testing.assert_frame_equal(skipping.jobs, one_by_one.jobs, check_exact=True)
    pd.testing.assert_frame_equal(skipping.rounds, one_by_one.rounds, check_exact=True)


@pytest.mark.thorough
def test_rates_are_those_of_the_gangs_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every stretch in which nobody is done, against gangs counted on machines."""
    seen: list[int] = []
    ran = Record.ran
    law, layout = SharedCost(1e-9, 4e-10, 0.02), Devices.of(CLUSTER).layout
    models = ["VGG-16", "ResNet-50", "LSTM-PTB", "Inception-V3"] * 2
    workload = jobs(models, [600.0] * 8, arrival_s=np.arange(8) * 130.0)

    def checked(record: Any, now_s: float, end_s: float, what: Any, active: int) -> None:
        ran(record, now_s, end_s, what, active)
        if what.done.size:
            return
        lies = {
            gang: layout.placement(held)
            for gang, held in zip(what.gangs.gang.tolist(), what.gangs.devices, strict=True)
        }
        machines = {
            gang: {(rack, machine) for rack, machine, _ in place} for gang, place in lies.items()
        }
        split = {gang: own for gang, own in machines.items() if len(own) > 1}
        for gang, rate in zip(what.gangs.gang.tolist(), what.rate, strict=True):
            name = workload.jobs["application"].iloc[gang]
            places = [gpus for _, _, gpus in lies[gang]]
            steps = workload.applications[name].steps.at(places, 64)
            compute_s = steps.step_s - steps.synchronisation_s
            each_s = (4 // sum(places)) * compute_s + steps.synchronisation_s
            if gang in split:
                k = max(sum(one in own for own in split.values()) for one in split[gang])
                size = (steps.synchronisation_s - law.startup_s) / law.s_per_byte
                each_s += (law.cost(k) - law.cost(1)) * size
                seen.append(k)
            assert rate == pytest.approx(1 / each_s, rel=1e-9)

    monkeypatch.setattr(Record, "ran", checked)
    elastic(workload, "pollux", network=ContentionNetwork({}, law), restart_seconds=10.0)
    assert {1, 2, 3} <= set(seen)


def test_networks_that_do_not_know_elastic_jobs_are_refused() -> None:
    workload = jobs(["VGG-16"], [10.0])
    for network in ("table1", "alpha_beta"):
        with pytest.raises(InputError, match=f"network='{network}' does not know elastic jobs"):
            elastic(workload, network=network)
    with pytest.raises(InputError, match="network 'contentoin'"):
        elastic(workload, network="contentoin")
    free = elastic(workload, network="none")
    assert free.settings["network"] == "none"
    pd.testing.assert_frame_equal(free.jobs, elastic(workload).jobs, check_exact=True)
