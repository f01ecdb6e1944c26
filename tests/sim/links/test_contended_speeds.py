from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from tests.seeds import sampled
from tests.sim.leasing.one_by_one import leased

import apportion as ap
from apportion.errors import InputError
from apportion.mechanism.placements import PLACEMENTS, Gang, Strategy, register
from apportion.sim.engine import duty_cycle
from apportion.sim.generators.presets import generate_contended_workload
from apportion.sim.links import ETHERNET_10G
from apportion.sim.network import get_network
from apportion.sim.network.models.trained import TABLE_III

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from apportion.mechanism.devices import Devices

pytestmark = pytest.mark.usefixtures("free_starts")


VGG = TABLE_III["VGG-16"]
CLUSTER = ap.Cluster({"v100": 8}, gpus_per_machine=4)


class Striped(Strategy):
    """One GPU of each machine in turn: every gang is split."""

    name = "striped"

    def choose(self, gang: Gang, devices: Devices) -> Sequence[int] | None:
        pool = devices.free_for(gang)
        free = sorted(pool.free_devices, key=lambda each: (each % 4, each))
        return sorted(free[: gang.gpus]) if len(free) >= gang.gpus else None


@pytest.fixture
def striped() -> Iterator[str]:
    register(Striped)
    yield "striped"
    del PLACEMENTS["striped"]


def step_s(k: float, model: str = "VGG-16") -> float:
    row, law = TABLE_III[model], ETHERNET_10G
    cost = k * law.s_per_byte + (k - 1) * law.penalty_s_per_byte
    return sum(row.passes_s()) + law.startup_s + cost * row.megabytes * 1e6


def jobs(steps: Sequence[float], models: Sequence[str] = ("VGG-16",)) -> ap.Workload:
    index = pd.MultiIndex.from_tuples([(model, 2) for model in TABLE_III])
    index.names = ["job_type", "scale_factor"]
    speeds = [1 / sum(row.passes_s()) for row in TABLE_III.values()]
    of = [models[k % len(models)] for k in range(len(steps))]
    table = pd.DataFrame({"job_type": of, "scale_factor": 2, "total_steps": steps})
    return ap.Workload("gangs of two", table, pd.DataFrame({"v100": speeds}, index))


def test_a_gang_is_faster_once_its_neighbour_is_done_in_a_round(striped: str) -> None:
    run = ap.simulate(
        *("fifo", jobs([100.0, 300.0]), CLUSTER),
        mechanism="rounds",
        network="contention",
        placement=striped,
    )
    first_s = 100 * step_s(2)
    assert run.jobs["jct_s"].tolist() == pytest.approx([first_s, first_s + 200 * step_s(1)])
    assert len(run.rounds) == 1


@pytest.mark.parametrize("network", sampled(["contention", "contention_expected"], 2))
@pytest.mark.parametrize("overhead_s", [0.0, 7.0])
def test_rounds_booked_together_equal_rounds_one_by_one(
    network: str, overhead_s: float, striped: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = [3e4, 8e4, 1.2e5, 2e4, 5e4, 700.0]
    workload = jobs(steps, ["VGG-16", "ResNet-50", "LSTM-PTB"])

    def run() -> ap.Run:
        return ap.simulate(
            *("max_min_fairness", workload, CLUSTER),
            mechanism="rounds",
            network=network,
            placement=striped,
            tiers=False,
            preemption_overhead_seconds=overhead_s,
        )

    together = run()
    monkeypatch.setattr(duty_cycle, "_AT_ONCE", 0)
    one_by_one = run()
    pd.testing.assert_frame_equal(together.jobs, one_by_one.jobs, check_exact=True)
    pd.testing.assert_frame_equal(together.rounds, one_by_one.rounds)
    alone = ap.simulate("max_min_fairness", workload, CLUSTER, placement=striped)
    assert (together.jobs["jct_s"] > alone.jobs["jct_s"] * 1.2).all()


@pytest.mark.parametrize("network", sampled(["contention_expected", "contention"], 2))
@pytest.mark.parametrize("scheduler", ["dally_no_wait", "gandiva"])  # gandiva splits most gangs
def test_leases_passed_over_equal_every_lease(network: str, scheduler: str) -> None:
    workload = generate_contended_workload(seed=3, scale=3.0)
    some = ap.Workload("some", workload.jobs.iloc[:30], workload.throughputs)
    cluster = ap.Cluster.of_racks(2, machines_per_rack=4, gpus_per_machine=4, accelerator="v100")
    runs = [
        leased(
            ap.get_scheduler(scheduler, lease_s=300.0),
            *(some, cluster),
            network=network,
            seed=1,
            every=every_lease,
        )
        for every_lease in (False, True)
    ]
    pd.testing.assert_series_equal(
        runs[0].jobs["completion_s"], runs[1].jobs["completion_s"], rtol=1e-9
    )
    free = ap.simulate(scheduler, some, cluster, network="none", seed=1)
    assert runs[0].jobs["jct_s"].mean() > 1.05 * free.jobs["jct_s"].mean()


def test_iterations_in_lockstep_are_what_the_fluid_speeds_say(striped: str) -> None:
    workload = jobs([200.0] * 4)
    iterated = ap.simulate(
        "srsf_1",
        workload,
        CLUSTER,
        placement=striped,
        gate="always",
        exclusive=True,
    )
    settings: dict[str, Any] = {"mechanism": "rounds", "network": "contention", "tiers": False}
    rounds = ap.simulate("fifo", workload, CLUSTER, placement=striped, **settings)
    assert iterated.jobs["jct_s"].tolist() == pytest.approx([200 * step_s(4)] * 4, rel=1e-9)
    assert rounds.jobs["jct_s"].tolist() == pytest.approx([200 * step_s(4)] * 4, rel=1e-9)


def test_iterations_out_of_step_lie_between_the_two_fluid_models(striped: str) -> None:
    """Transfers that are not in step meet fewer others than if all sent at once."""
    workload = jobs([400.0] * 4, list(TABLE_III))
    settings: dict[str, Any] = {"placement": striped}
    mean_s = {
        network: ap.simulate(
            *("fifo", workload, CLUSTER),
            mechanism="rounds",
            network=network,
            tiers=False,
            **settings,
        ).jobs["jct_s"]
        for network in ("contention", "contention_expected")
    }
    iterated_s = ap.simulate(
        "srsf_1", workload, CLUSTER, gate="always", exclusive=True, **settings
    ).jobs["jct_s"]
    assert iterated_s.mean() < mean_s["contention"].mean()
    assert iterated_s.mean() == pytest.approx(mean_s["contention_expected"].mean(), rel=0.15)


def test_what_contention_refuses() -> None:
    with pytest.raises(InputError, match="has no rings"):
        get_network("contention", cluster=CLUSTER, flat_if_unbalanced=True)
    index = pd.MultiIndex.from_tuples([("A3C", 2)], names=["job_type", "scale_factor"])
    table = pd.DataFrame({"job_type": ["A3C"], "scale_factor": [2], "total_steps": [5.0]})
    workload = ap.Workload("x", table, pd.DataFrame({"v100": [1.0]}, index))
    with pytest.raises(InputError, match="'A3C' has no communication profile"):
        ap.simulate("fifo", workload, CLUSTER, network="contention")
