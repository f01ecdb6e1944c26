"""Any network model in rounds: gangs are as fast as their shapes let them be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

import apportion as ap
from apportion.cluster import Cluster
from apportion.errors import InputError
from apportion.sim import Workload, simulate
from apportion.sim.network import tier_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.sim.network import Shape

SMALL = Cluster.of_racks(2, machines_per_rack=2, gpus_per_machine=4)


@dataclass(frozen=True)
class ByTier:
    """Overheads 1/4 in a machine, 1 in a rack, 7 over racks."""

    name: str = "by tier"

    def overhead(self, job_type: str, shape: Shape) -> float:
        return (0.25, 1.0, 7.0)[tier_of(shape)]


def jobs_of(rows: Sequence[tuple[float, int, float]], **speeds: float) -> Workload:
    """Jobs of (arrival_s, scale_factor, total_steps), of one model."""
    jobs = pd.DataFrame(rows, columns=["arrival_s", "scale_factor", "total_steps"])
    jobs = jobs.assign(job_type="ResNet50")
    pairs = pd.MultiIndex.from_frame(jobs[["job_type", "scale_factor"]].drop_duplicates())
    return Workload("by hand", jobs, pd.DataFrame(speeds, index=pairs))


def in_rounds(workload: Workload, cluster: Cluster, **settings: Any) -> ap.Run:
    settings = {"mechanism": "rounds", "round_seconds": 100.0, "network": ByTier(), **settings}
    run = simulate("max_min_fairness", workload, cluster, **settings)
    ap.check_schedule(run, workload, cluster, network=settings["network"])
    return run


def test_gangs_in_rounds_run_at_their_throughput_over_one_plus_the_overhead() -> None:
    # One at a time: in a machine, in a rack, over racks; 500 s each if communication were free.
    load = jobs_of([(0.0, 4, 1000), (3000.0, 6, 1000), (6000.0, 12, 1000)], gpu=2.0)
    jobs = in_rounds(load, SMALL).jobs
    assert jobs.jct_s.tolist() == pytest.approx([500 * 1.25, 500 * 2, 500 * 8])
    # Alone on the cluster they are as fast as can be, but that each is in rounds of its own.
    assert jobs.ftf.tolist() == pytest.approx([1.0, 1.0, 1.0])
    free = in_rounds(load, SMALL, network="none").jobs
    assert free.jct_s.tolist() == pytest.approx([500, 500, 500])


@pytest.mark.parametrize(("gpus", "machines", "jct_s"), [(5, (2, 3), 2000), (6, (0, 2, 3), 8000)])
def test_a_gang_that_others_split_stays_where_it_is_at_the_speed_of_its_shape(
    gpus: int, machines: tuple[int, ...], jct_s: float
) -> None:
    # Three jobs of 3 leave 1 GPU on a machine each, and 4 on the last one, in the second rack: a
    # gang of 5 fits that rack; one of 6 takes 1 from the other. In rounds it keeps them for good.
    load = jobs_of([(0.0, 3, 2000.0)] * 3 + [(100.0, gpus, 1000.0)], gpu=1.0)
    run = in_rounds(load, SMALL, tiers=False)
    assert run.schedule[run.schedule.job == 3].machines.tolist() == [machines]
    assert run.jobs.jct_s.tolist() == pytest.approx([2500, 2500, 2500, jct_s])


def test_a_network_alone_chooses_leases_and_shares_had_exactly_know_none() -> None:
    load = jobs_of([(0.0, 4, 1000)], gpu=2.0)
    run = simulate("max_min_fairness", load, SMALL, network="table1")
    assert run.settings["mechanism"] == "leases"
    with pytest.raises(InputError, match="network='table1' is for the mechanism"):
        simulate("max_min_fairness", load, SMALL, mechanism="exact", network="table1")
    with pytest.raises(InputError, match="Unknown network 'table2'"):
        simulate("max_min_fairness", load, SMALL, mechanism="rounds", network="table2")
