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
