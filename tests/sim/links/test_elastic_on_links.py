"""Elastic gangs whose synchronisations meet on links: closed forms, and the same gangs rigid."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest

import apportion as ap
from apportion.errors import InputError
from apportion.estimators.goodput import (
    BatchLimits,
    MeasuredApplication,
    MeasuredTraining,
    ModelledSteps,
    StepTimes,
)
from apportion.sim.network import PhaseNetwork
from apportion.sim.network.cassini import CassiniNetwork

# A gang of four has one machine of three GPUs to itself and a GPU of another, which gangs share.
CLUSTER = ap.Cluster.of_racks(1, machines_per_rack=4, gpus_per_machine=3, accelerator="v100")


def application(name: str, silent_s: float, sends_s: float, steps: float) -> MeasuredApplication:
    """Steps of 4 x 64 samples and no others."""
    times = StepTimes(alpha_c=silent_s, beta_c=0.0, alpha_n=sends_s)
    training = pd.DataFrame({"progress": [steps], "grad_sqr": 1.0, "grad_var": 1.0})
    return MeasuredApplication(
        *(name, ModelledSteps(name, times, 64), MeasuredTraining(name, {256: training})),
        BatchLimits(256, 256, 64, 64),
    )


def jobs(sends: list[float], steps: float = 600.0, arrival_s: Any = 0.0) -> ap.ElasticWorkload:
    """Jobs whose steps take a second, and that send for so much of it: less than half.

    Else they would take fewer GPUs of one machine.
    """
    names = [f"sends {part}" for part in sends]
    table = pd.DataFrame({"arrival_s": arrival_s, "application": names, "gpus": 4, "batch": 256})
    known = {
        name: application(name, 1 - part, part, steps)
        for name, part in zip(names, sends, strict=True)
    }
    return ap.ElasticWorkload("gangs of four", table, known)


def elastic(workload: ap.ElasticWorkload, policy: str = "sia", **settings: Any) -> ap.Run:
    free: dict[str, Any] = {"growth": math.inf, "restart_seconds": 0.0, "gang_sizes": "every"}
    return ap.simulate(policy, workload, CLUSTER, **{**free, **settings})


@pytest.mark.parametrize(
    ("policy", "sends", "network", "slower"),
    [
        ("sia", [0.45, 0.45], "cassini", 1.0),
        ("pollux", [0.45, 0.45], "phases", 1.0),
        ("deepboot", [0.4, 0.4], "cassini_unshifted", 1.16),
        ("pollux", [0.4, 0.4, 0.4], "cassini", 1.2),
        ("deepboot", [0.4, 0.4, 0.4], "phases", 1.2),
        ("sia", [0.3, 0.3, 0.3], "phases", 1.0),
    ],
)
def test_steps_take_as_long_as_the_score_says(
    policy: str, sends: list[float], network: str, slower: float
) -> None:
    run = elastic(jobs(sends), policy, network=network)
    assert run.jobs["jct_s"].tolist() == pytest.approx([600 * slower] * len(sends))
    assert run.settings["network"] == network
    assert ("links" in run.tables) == network.startswith("phases")


@pytest.mark.usefixtures("free_starts")
@pytest.mark.thorough
def test_elastic_gangs_lose_what_rigid_ones_lose() -> None:
    sends = [0.4, 0.45, 0.35]
    profiles = {
        f"sends {part}": ap.CommunicationProfile("rigid", 1.0, [(1 - part, part, 50.0)])
        for part in sends
    }
    table = pd.DataFrame(
        {"job_type": list(profiles), "scale_factor": 4, "total_steps": 600.0, "arrival_s": 0.0}
    )
    rows = pd.MultiIndex.from_tuples([(name, 4) for name in profiles])
    rows.names = ["job_type", "scale_factor"]
    rigid = ap.Workload("rigid", table, pd.DataFrame({"v100": 1.0}, index=rows))
    kinds: list[Any] = [CassiniNetwork, PhaseNetwork]
    for kind in kinds:
        found = elastic(jobs(sends), network=kind()).jobs["jct_s"]
        network = kind(profiles=profiles)
        same = ap.simulate("fifo", rigid, CLUSTER, mechanism="rounds", network=network)
        assert found.tolist() == pytest.approx(same.jobs["jct_s"].tolist(), rel=1e-6)
        assert found.max() > 620


@pytest.mark.thorough
def test_gangs_come_to_machines_that_suit_them() -> None:
    """Packed, the fourth GPUs of all three are on one machine, whose link cannot carry them."""
    big = ap.Cluster.of_racks(1, machines_per_rack=8, gpus_per_machine=3, accelerator="v100")
    free: dict[str, Any] = {"growth": math.inf, "restart_seconds": 0.0, "gang_sizes": "every"}
    ends = {}
    for network in ("cassini", "phases"):
        for placement in ("packed", "cassini"):
            run = ap.simulate(
                "pollux", jobs([0.4] * 3), big, network=network, placement=placement, **free
            )
            ends[placement] = run.jobs["jct_s"].tolist()
        assert ends["packed"] == pytest.approx([720] * 3)
        assert ends["cassini"] == pytest.approx([600] * 3)
        counts = run.tables["candidates"]
        assert counts.index.tolist() == [4]
        assert counts["placements"].tolist() == [3]
        assert 1 <= counts["moved"].sum() <= 2


def test_beside_requests() -> None:
    """A request holds a GPU of the cluster for a while; gangs are shifted all the same."""
    rows = {"arrival_s": [100.0, 400.0], "service": ["f", "f"], "duration_s": [20.0, 20.0]}
    serving = ap.Serving(pd.DataFrame(rows))
    runs = {
        placement: elastic(
            jobs([0.4, 0.4]), "deepboot", network="phases", placement=placement, serving=serving
        )
        for placement in ("packed", "cassini")
    }
    for run in runs.values():
        assert (run.jobs["jct_s"] < 1200).all()
        assert run.tables["links"]["marks_gigabits"].sum() == 0


def test_bad_input_is_named() -> None:
    with pytest.raises(InputError, match="needs a network that knows"):
        elastic(jobs([0.5]), placement="cassini")
    with pytest.raises(InputError, match="needs a network that knows"):
        elastic(jobs([0.5]), placement="cassini", network="contention")
    with pytest.raises(InputError, match="placement"):
        ap.Configurations(placement="random")
