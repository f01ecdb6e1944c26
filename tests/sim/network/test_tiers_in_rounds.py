"""Shares of tiers in rounds: a gang in a machine, in a rack, or anywhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from tests.seeds import ranges_of_seeds

import apportion as ap
from apportion.errors import InputError
from apportion.mechanism.placement import Placer
from apportion.mechanism.round_planner import FreeGpus, RoundPlanner
from apportion.mechanism.shares import NO_PAIRS, Shares
from apportion.sim import generate_rack_workload

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]

ROUND_S = 100.0


@dataclass(frozen=True)
class ByTier:
    """Overheads of the tiers."""

    overheads: tuple[float, float, float] = (0.0, 1.0, 4.0)
    name: str = "by tier"

    def overhead(self, job_type: str, shape: tuple[tuple[int, ...], ...]) -> float:
        if len(shape) > 1:
            return self.overheads[2]
        return self.overheads[1 if sum(map(len, shape)) > 1 else 0]


def racks_of(rng: np.random.Generator) -> ap.Cluster:
    racks, machines, gpus = (
        int(rng.integers(1, 4)),
        int(rng.integers(1, 4)),
        int(rng.choice([2, 4])),
    )
    return ap.Cluster.of_racks(racks, machines_per_rack=machines, gpus_per_machine=gpus)


def average_of_packings(rng: np.random.Generator, cluster: ap.Cluster) -> tuple[Ints, Floats]:
    """Draw gangs, and shares of tiers that so many packings in turn give them exactly."""
    jobs, gpus = int(rng.integers(2, 12)), cluster.largest_machine
    scale = np.minimum(
        rng.integers(1, int(rng.choice([1, 2])) * gpus + 1, jobs), cluster.total_gpus
    )
    shares = np.zeros((jobs, 3))
    for part in rng.dirichlet(np.ones(int(rng.integers(1, 5)))):
        room = FreeGpus(Placer(cluster).pools[0].gpus)
        for job in rng.permutation(jobs).tolist():
            tier = int(rng.integers(0, 3))
            if room.take(int(scale[job]), tier) is not None:
                shares[job, tier] += part
    return scale, shares


@pytest.mark.parametrize("seeds", ranges_of_seeds(12, 400))
def test_the_fractions_of_time_at_tiers_approach_the_shares(seeds: range) -> None:
    for seed in seeds:
        rng = np.random.default_rng(seed)
        cluster = racks_of(rng)
        scale, shares = average_of_packings(rng, cluster)
        planner = RoundPlanner(Placer(cluster), ROUND_S, tiers=3, work_conserving=False)
        table, devices, jobs = planner.table, planner.placer.devices, np.arange(scale.size)
        table.add(jobs, jobs, scale, np.where(shares > 0, 1.0, 1e-3))
        table.aim(jobs, Shares(shares, NO_PAIRS, np.zeros((0, 3))))
        rounds, had = 100, np.zeros_like(shares)
        for _ in range(rounds):
            planner.plan()
            for job, tier in zip(planner.rows.tolist(), planner.options.tolist(), strict=True):
                gang = int(table.gang[job])
                assert sum(gpus for _, _, gpus in devices.placement(gang)) == scale[job]
                assert devices.tier(gang) <= tier
                had[job, tier] += 1
            table.book(planner.rows, planner.options, np.full(planner.rows.size, ROUND_S))
        assert np.abs(had / rounds - shares).max() * rounds < 3, seed


def drawn(rng: np.random.Generator, cluster: ap.Cluster) -> ap.Workload:
    """Draw jobs of all sizes, of which some cannot be spread and all are slower if they are."""
    types, sizes = list(cluster.accelerators), [1, 2, 3, 4, 8]
    rows = pd.MultiIndex.from_product([["a", "b"], sizes], names=["job_type", "scale_factor"])
    whole = pd.DataFrame(rng.uniform(1, 4, (len(rows), len(types))), rows, types)
    apart = whole * rng.uniform(0.2, 0.9, whole.shape)
    apart[rng.random(whole.shape) < 0.3] = 0.0
    columns = {
        "job_type": rng.choice(["a", "b"], 14),
        "scale_factor": rng.choice(sizes, 14),
        "arrival_s": rng.uniform(0, 3000, 14),
        "total_steps": rng.uniform(500, 9000, 14),
    }
    return ap.Workload("drawn", pd.DataFrame(columns), whole, unconsolidated=apart)


@pytest.mark.thorough
@pytest.mark.parametrize("seeds", ranges_of_seeds(2, 60))
def test_who_cannot_be_spread_never_is_and_schedules_can_be(seeds: range) -> None:
    for seed in seeds:
        rng = np.random.default_rng(seed)
        cluster = ap.Cluster({"v100": 12, "k80": 10}, gpus_per_machine=4)
        load, told = drawn(rng, cluster), {"preemption_overhead_seconds": 5.0}
        settings: dict[str, Any] = {"placement_sensitive": True, "round_seconds": ROUND_S} | told
        policy = str(rng.choice(["max_min_fairness", "makespan", "fifo", "finish_time_fairness"]))
        run = ap.simulate(policy, load, cluster, **settings)
        ap.check_schedule(run, load, cluster)
        assert load.unconsolidated is not None
        never = load.unconsolidated == 0
        for stay in run.schedule.to_dict("records"):
            job = load.jobs.loc[stay["job"]]
            key = (job["job_type"], job["scale_factor"])
            if job["scale_factor"] <= 4 and never.loc[key, stay["accelerator"]]:
                assert len(set(stay["machines"])) == 1, (seed, stay)


@pytest.mark.thorough
@pytest.mark.parametrize("seeds", ranges_of_seeds(1, 40))
def test_where_gangs_are_as_fast_everywhere_rounds_are_plain_ones(seeds: range) -> None:
    for seed in seeds:
        rng = np.random.default_rng(seed)
        cluster = ap.Cluster({"v100": 8, "k80": 8}, gpus_per_machine=4)
        load = drawn(rng, cluster)
        load = ap.Workload("same", load.jobs, load.throughputs, unconsolidated=load.throughputs)
        plain = ap.simulate("max_min_fairness", load, cluster)
        cases: list[dict[str, Any]] = [
            {"placement_sensitive": True},
            {"placement_sensitive": True, "tiers": True},
            {"network": ByTier((0.0, 0.0, 0.0))},
        ]
        for settings in cases:
            run = ap.simulate("max_min_fairness", load, cluster, mechanism="rounds", **settings)
            pd.testing.assert_frame_equal(run.jobs, plain.jobs, check_exact=True)


@pytest.mark.thorough
def test_a_policy_gives_the_machine_to_whom_it_is_worth_most() -> None:
    # One machine of 4 whole and 4 GPUs in two others: of two gangs of 4 one is apart, at a fifth of
    # the speed in the other's machine. Equal shares of both: .5 of the time in the machine and .5
    # apart is .6 of the speed; the same by plain cvxpy over (job, tier).
    cluster = ap.Cluster.of_racks(3, machines_per_rack=1, gpus_per_machine=4)
    columns = {"job_type": "m", "scale_factor": 3, "arrival_s": 0.0, "total_steps": 1e7}
    rows = pd.MultiIndex.from_tuples([("m", 3)], names=["job_type", "scale_factor"])
    load = ap.Workload("five", pd.DataFrame([columns] * 5), pd.DataFrame({"gpu": [1.0]}, rows))
    load.jobs["total_steps"] = 20_000.0
    run = ap.simulate(
        "max_min_fairness", load, cluster, mechanism="rounds", network=ByTier(), round_seconds=60
    )
    # Three machines hold three of five, and 3 GPUs beside them hold one more, over racks.
    x = cp.Variable((5, 2), nonneg=True)
    limits: list[Any] = [cp.sum(x, axis=1) <= 1, cp.sum(x[:, 0]) <= 3, 3 * cp.sum(x) <= 12]
    best: Any = cp.Problem(cp.Maximize(cp.min(x @ np.array([1.0, 0.2]))), limits).solve()
    last_s = float(run.jobs["completion_s"].max())
    assert last_s == pytest.approx(20_000.0 / best, rel=0.02)
    blind = ap.simulate(
        *("max_min_fairness", load, cluster),
        mechanism="rounds",
        network=ByTier(),
        round_seconds=60,
        tiers=False,
    )
    assert blind.jobs["jct_s"].mean() > run.jobs["jct_s"].mean()


def test_what_tiers_refuse() -> None:
    cluster = ap.Cluster.of_racks(2, machines_per_rack=2, gpus_per_machine=4)
    load = generate_rack_workload(jobs=4, seed=2, max_scale_factor=8)
    with pytest.raises(InputError, match="tiers=True does nothing where gangs are as fast"):
        ap.simulate("max_min_fairness", load, cluster, mechanism="rounds", tiers=True)
    wrong: Any = "machine"
    with pytest.raises(InputError, match="tiers is 'machine'; it must be True or False"):
        ap.simulate("max_min_fairness", load, cluster, mechanism="rounds", tiers=wrong)
