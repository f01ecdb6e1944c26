from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.cluster import TIERS, Cluster
from apportion.errors import InputError
from apportion.sim import Workload, generate_rack_workload, simulate
from apportion.sim.network import get_network, tier_of
from apportion.sim.network.shapes import gpus_of
from apportion.sim.tier_speeds import natural_shape, tier_speeds

RACKS = Cluster.of_racks(2, machines_per_rack=2, gpus_per_machine=4)


def jobs_of(*gangs: int, hours: float = 10.0, **columns: Any) -> Workload:
    """ResNet18 jobs that all arrive at once, each an hour of compute for 3600 steps."""
    table = pd.DataFrame(
        {"job_type": "ResNet18", "scale_factor": gangs, "total_steps": 3600.0 * hours, **columns}
    )
    index = pd.MultiIndex.from_tuples([("ResNet18", gang) for gang in sorted(set(gangs))])
    return Workload("by hand", table, pd.DataFrame({"gpu": 1.0}, index=index))


@pytest.mark.parametrize(
    ("gpus", "shapes"),
    [
        (1, [((1,),), None, None]),
        (2, [((2,),), ((1, 1),), ((1,), (1,))]),
        (4, [((4,),), ((2, 2),), ((2,), (2,))]),
        (6, [None, ((3, 3),), ((3,), (3,))]),
        (7, [None, ((4, 3),), ((4,), (3,))]),
        (8, [None, ((4, 4),), ((4,), (4,))]),
        (12, [None, None, ((3, 3), (3, 3))]),
        (16, [None, None, ((4, 4), (4, 4))]),
    ],
)
def test_natural_shapes_by_hand(gpus: int, shapes: list[Any]) -> None:
    assert [natural_shape(gpus, tier, RACKS) for tier in range(3)] == shapes


@given(st.integers(1, 64), st.sampled_from([0, 1, 2]), st.integers(1, 4), st.integers(1, 4))
def test_natural_shapes_hold_the_gang_at_their_tier(
    gpus: int, tier: int, racks: int, machines: int
) -> None:
    cluster = Cluster.of_racks(racks, machines_per_rack=machines, gpus_per_machine=4)
    shape = natural_shape(gpus, tier, cluster)
    if shape is not None:
        assert tier_of(shape) == tier
        assert gpus_of(shape) == gpus
        assert len(shape) <= racks
        assert max(map(len, shape)) <= machines
        assert max(map(max, shape)) <= 4


def test_every_job_that_fits_the_cluster_has_a_tier() -> None:
    for gpus in range(1, RACKS.total_gpus + 1):
        assert any(natural_shape(gpus, tier, RACKS) for tier in range(3))


def test_speeds_are_the_isolated_one_over_one_plus_the_overhead() -> None:
    cluster = Cluster.of_racks(2)
    speeds = tier_speeds(jobs_of(8, 1), cluster, get_network("table1", cluster=cluster))
    # ResNet18 in Table I: 7, 116 and 2749 %.
    np.testing.assert_allclose(speeds[0], [1 / 1.07, 1 / 2.16, 1 / 28.49])
    np.testing.assert_allclose(speeds[1], [1, 0, 0])


def test_two_gangs_share_the_one_machine_and_neither_waits_for_ever() -> None:
    cluster = Cluster.of_racks(1, machines_per_rack=1, gpus_per_machine=4)
    run = simulate("max_min_fairness", jobs_of(4, 4), cluster, mechanism="leases", network="none")
    jobs = run.jobs
    # Ten hours each in turns of an hour: the first ends before its last lease would.
    held = jobs["machine_s"].to_numpy() / 3600
    np.testing.assert_allclose(held, 10, rtol=0.01)
    assert jobs["completion_s"].min() / 3600 == pytest.approx(19, rel=0.01)
    assert jobs["completion_s"].max() / 3600 == pytest.approx(20, rel=0.01)


def test_time_follows_weights() -> None:
    cluster = Cluster.of_racks(1, machines_per_rack=1, gpus_per_machine=4)
    workload = jobs_of(4, 4, hours=30.0, weight=[3.0, 1.0])
    run = simulate("max_min_fairness", workload, cluster, mechanism="leases", network="none")
    # Of the first forty hours the heavier one has three quarters.
    assert run.jobs["completion_s"].iloc[0] / 3600 == pytest.approx(40, abs=2)


def test_a_policy_keeps_gangs_in_machines_where_there_is_room() -> None:
    run = simulate("max_total_throughput", jobs_of(4, 4, 4, 4), RACKS, network="table1")
    assert (run.jobs["machine_s"] > 0).all()
    assert (run.jobs[["rack_s", "network_s"]] == 0).all().all()


@pytest.mark.parametrize("policy", ["fifo", "finish_time_fairness", "network_sensitive"])
def test_policies_run_to_the_end_and_hold_what_they_compute(policy: str) -> None:
    workload = generate_rack_workload(jobs=15, seed=1, max_scale_factor=16)
    run = simulate(policy, workload, RACKS, mechanism="leases")
    np.testing.assert_allclose(run.jobs["compute_s"], workload.jobs["duration_s"], rtol=1e-9)
    used = run.rounds[[f"{tier}_gpus" for tier in TIERS]].sum(axis=1)
    length = run.rounds["end_s"] - run.rounds["start_s"]
    assert (used <= RACKS.total_gpus * length * (1 + 1e-9)).all()
    assert run.settings["network"] == "table1"
    assert run.solves > 0
    assert run.policy_seconds > 0


def test_fewer_solves_with_time_between_them() -> None:
    workload = generate_rack_workload(jobs=12, seed=1, max_scale_factor=16)
    often, seldom = (
        simulate("fifo", workload, RACKS, mechanism="leases", resolve_seconds=seconds)
        for seconds in (0.0, 86400.0)
    )
    assert seldom.solves < often.solves
    assert seldom.jobs["completion_s"].notna().all()


def test_space_sharing_is_refused() -> None:
    with pytest.raises(InputError, match="lets jobs share GPUs; under leases"):
        simulate("max_min_fairness_space_sharing", jobs_of(1), RACKS, mechanism="leases")
