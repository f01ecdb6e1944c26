from __future__ import annotations

import pytest

import apportion as ap
from apportion.sim.network import COMMUNICATING_MODELS

CLUSTER = ap.Cluster({"a100": 24}, gpus_per_machine=2, machines_per_rack=3)


@pytest.mark.parametrize("network", ["cassini", "phases"])
def test_tiresias_knows_the_skew_of_every_model_that_sends(network: str) -> None:
    work = ap.generate_communicating_workload(13, jobs_per_hour=40, gpus=(2, 6), seed=1)
    models = list(COMMUNICATING_MODELS)
    work.jobs["job_type"] = models
    run = ap.simulate("tiresias", work, CLUSTER, network=network)
    assert sorted(run.jobs["job_type"]) == sorted(models)


def test_largest_tensors_are_those_of_the_papers() -> None:
    skew = {name: each.largest / each.parameters for name, each in COMMUNICATING_MODELS.items()}
    assert skew["VGG11"] == pytest.approx(0.77, abs=0.005)  # as Dally's table 1 has it
    assert skew["ResNet50"] == pytest.approx(0.09, abs=0.005)
    assert skew["GPT-2"] == pytest.approx(50257 * 1600 / 1.542e9)
    assert all(0 < each < 1 for each in skew.values())
