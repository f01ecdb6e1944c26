from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from tests.seeds import sampled
from tests.sim.leasing.one_by_one import leased

import apportion as ap
from apportion.cluster import Cluster
from apportion.mechanism.deciders import get_scheduler, scheduler_table
from apportion.sim.tiers.tier_shares import TierShares

if TYPE_CHECKING:
    from collections.abc import Callable

    from apportion.mechanism.leases import OfferScheduler
    from apportion.sim import Workload
    from apportion.sim.network import NetworkModel

    Draw = Callable[..., Workload]

SCHEDULERS: list[str] = scheduler_table("leases")["name"].tolist()
CLUSTER = Cluster.of_racks(2, machines_per_rack=4, gpus_per_machine=4)


@pytest.mark.parametrize(
    ("delays", "other"), [(0.0, "dally_no_wait"), (np.inf, "dally_fully_consolidated")]
)
def test_manual_timers_at_their_ends_are_the_other_two(
    random_workload: Draw, network: NetworkModel, delays: float, other: str
) -> None:
    manual = get_scheduler("dally_manual", machine_s=delays, rack_s=delays)
    runs = [
        ap.simulate(
            scheduler,
            random_workload(7),
            CLUSTER,
            network=network,
        )
        for scheduler in (manual, other)
    ]
    pd.testing.assert_frame_equal(runs[0].jobs, runs[1].jobs, check_exact=True)
    pd.testing.assert_frame_equal(runs[0].rounds, runs[1].rounds, check_exact=True)


VARIANTS = {
    **{name: get_scheduler(name) for name in SCHEDULERS},
    "short history": get_scheduler("dally", history_s=9000.0, lease_s=600.0),
    "restored": get_scheduler("tiresias", restore_s_per_gpu=5.0, lease_s=900.0),
    "no checkpoint": get_scheduler("dally_no_wait", checkpoint_s_per_gpu=0.0),
    "moved": get_scheduler("dally_no_wait", migrates=True, restore_s_per_gpu=3.0, lease_s=700.0),
}


@pytest.mark.parametrize("name", sampled(sorted(VARIANTS), 4))
def test_leases_that_are_no_events_change_nothing(
    random_workload: Draw, network: NetworkModel, name: str
) -> None:
    scheduler: OfferScheduler = VARIANTS[name]
    runs = [
        leased(
            *(scheduler, random_workload(3), CLUSTER), network=network, seed=2, every=every_lease
        )
        for every_lease in (False, True)
    ]
    pd.testing.assert_frame_equal(runs[0].jobs, runs[1].jobs, rtol=1e-9)
    assert len(runs[0].rounds) < len(runs[1].rounds)
    if scheduler.timers.tuned:
        last = [run.tables["timers"].groupby("scale_factor").last().iloc[:, 1:] for run in runs]
        pd.testing.assert_frame_equal(last[0], last[1], rtol=1e-6)


@pytest.mark.parametrize("name", sampled(sorted(VARIANTS), 3))
def test_what_is_remembered_of_steady_rules_changes_nothing(
    random_workload: Draw, network: NetworkModel, name: str
) -> None:
    scheduler: OfferScheduler = VARIANTS[name]
    kind = type(scheduler.rule)
    unsteady = type(kind.__name__, (kind,), {"steady": False})
    own = replace(scheduler, rule=unsteady(**vars(scheduler.rule)))
    assert kind.steady
    runs = [
        ap.simulate(each, random_workload(4), CLUSTER, network=network) for each in (scheduler, own)
    ]
    pd.testing.assert_frame_equal(runs[0].jobs, runs[1].jobs, rtol=1e-12)
    pd.testing.assert_frame_equal(runs[0].schedule, runs[1].schedule, check_exact=True)


POLICIES = ["finish_time_fairness", "makespan", "max_min_fairness"]
BY_TYPE = Cluster.of_racks({"fast": 1, "slow": 1}, machines_per_rack=4, gpus_per_machine=4)


@pytest.mark.parametrize("name", sorted(SCHEDULERS))
def test_time_is_conserved(random_workload: Draw, network: NetworkModel, name: str) -> None:
    load = random_workload(5)
    jobs = ap.simulate(name, load, CLUSTER, network=network).jobs
    assert jobs.compute_s.to_numpy() == pytest.approx(load.jobs.total_steps.to_numpy() / 0.5)
    tiers = jobs[["machine_s", "rack_s", "network_s"]].sum(axis=1).to_numpy()
    assert tiers == pytest.approx(jobs.gpu_s.to_numpy())
    assert (jobs.queueing_s + jobs.gpu_s).to_numpy() == pytest.approx(jobs.jct_s.to_numpy())
    alone = jobs.scale_factor == 1
    slowest = np.where(alone, 0.0, 7.0) * jobs.compute_s
    assert (jobs.communication_s <= slowest * (1 + 1e-9)).all()
    lost_s = jobs.gpu_s - jobs.compute_s - jobs.communication_s
    assert (lost_s > -1e-6).all()


@pytest.mark.thorough
def test_the_same_seed_gives_the_same_run_and_another_seed_other_placements(
    random_workload: Draw, network: NetworkModel
) -> None:
    def run(seed: int) -> pd.DataFrame:
        load = random_workload(9)
        return ap.simulate("gandiva", load, CLUSTER, network=network, seed=seed).jobs

    pd.testing.assert_frame_equal(run(1), run(1), check_exact=True)
    assert not run(1).equals(run(2))


@pytest.mark.parametrize("name", sampled(POLICIES[::-1], 3))
def test_turns_of_an_instant_are_those_of_which_each_gift_asks_anew(
    random_workload: Draw, network: NetworkModel, name: str
) -> None:
    load = random_workload(5)
    (speed,) = load.throughputs.to_numpy(dtype=float).T
    slow = np.random.default_rng(5).uniform(0.2, 1.5) * speed
    both = pd.DataFrame({"fast": speed, "slow": slow}, index=load.throughputs.index)
    for workload, cluster in ((load, CLUSTER), (replace(load, throughputs=both), BY_TYPE)):
        asks = name, workload, cluster
        run = ap.simulate(*asks, mechanism="leases", network=network)
        with patch.object(TierShares, "lasts", False):
            anew = ap.simulate(*asks, mechanism="leases", network=network)
        for table in ("jobs", "rounds", "schedule"):
            expected = getattr(anew, table)
            pd.testing.assert_frame_equal(getattr(run, table), expected, check_exact=True)
