"""Constraints of one's own over what is held: kept at every instant of every schedule."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from tests.seeds import ranges_of_seeds
from tests.sim.rounds.capped import AtMost, PowerCap, Quotas, TypePower, drawn, excess

import apportion as ap
from apportion.mechanism.rounds import InRounds
from apportion.pairs import PairThroughputs
from apportion.policies.dally_round import DallyRound
from apportion.sim.about import Parts
from apportion.sim.network import StaticNetwork

if TYPE_CHECKING:
    from pathlib import Path

HAIR = 1e-6
SLOWER = StaticNetwork(speed=(1.0, 0.8, 0.6))


def settings(rng: np.random.Generator) -> dict[str, Any]:
    """Draw a mechanism that gives devices, and how it goes about it."""
    chosen: list[dict[str, Any]] = [
        {},
        {"round_seconds": 250.0, "preemption_overhead_seconds": 20.0},
        {"resolve_seconds": 2000.0, "carry_over": True},
        {"round_seconds": 600.0, "leases": False},
        {"mechanism": "rounds", "network": SLOWER, "tiers": True},
        {"mechanism": "leases", "network": "none", "lease_seconds": 1800.0},
        {"checkpoint_seconds_per_gpu": 30.0, "timers": "600,1200", "network": SLOWER},
        {"lease_seconds": 900.0, "resolve_seconds": 1000.0, "network": SLOWER},
    ]
    return chosen[int(rng.integers(len(chosen)))]


@dataclass(frozen=True)
class AtMostInPairs(AtMost):
    """The same of jobs that may share devices."""

    name = "at_most_in_pairs"
    space_sharing: bool = True


SEEDS = ranges_of_seeds(1, 200)
MORE = [pytest.param(range(200), marks=pytest.mark.slow)]


def check_watts(seeds: range, hours: int) -> None:
    """Run under caps of so many hours in turn, or periods of another length."""
    for seed in seeds:
        (load, cluster), rng = drawn(seed), np.random.default_rng(seed)
        largest = load.jobs["power_w"].max()
        caps = tuple(largest * rng.uniform(1, 3, hours))
        policy = PowerCap(caps, period_s=3600.0 if hours == 1 else float(rng.choice([3600, 5000])))
        run = ap.simulate(policy, load, cluster, **settings(rng))
        changes = np.arange(0, run.jobs["completion_s"].max(), policy.period_s)
        assert excess(run, lambda job, _: job.power_w, policy.cap, changes) <= HAIR, seed
        assert run.on_average == ()


@pytest.mark.parametrize("seeds", SEEDS)
def test_watts_stay_under_a_cap_of_the_hour(seeds: range) -> None:
    check_watts(seeds, hours=3)


@pytest.mark.parametrize("seeds", MORE)
def test_watts_stay_under_a_cap(seeds: range) -> None:
    check_watts(seeds, hours=1)


@pytest.mark.parametrize("seeds", MORE)
def test_watts_of_types_stay_under_a_cap(seeds: range) -> None:
    watts = {"a": 300.0, "b": 130.0}
    for seed in seeds:
        (load, cluster), rng = drawn(seed), np.random.default_rng(seed)
        cap = 4 * 300 * rng.uniform(1, 3)
        run = ap.simulate(TypePower((*watts.items(),), cap), load, cluster, **settings(rng))

        def held(job: Any, kind: str) -> float:
            return float(job.scale_factor * watts[kind])

        def of_one(job: Any, kind: str) -> float:
            return held(job, kind) if job.scale_factor == 1 else 0.0

        assert excess(run, held, cap) <= HAIR, seed
        assert excess(run, of_one, cap / 2) <= HAIR, seed


@pytest.mark.parametrize("seeds", MORE)
def test_nobody_has_more_than_a_quota_of_a_type(seeds: range) -> None:
    for seed in seeds:
        (load, cluster), rng = drawn(seed), np.random.default_rng(seed)
        quotas = {
            (who, kind): float(rng.integers(0 if kind == "b" else 4, 7))
            for who in load.jobs["entity"].unique()
            for kind in cluster.accelerators
        }
        told = tuple((who, kind, most) for (who, kind), most in quotas.items())
        run = ap.simulate(Quotas(told), load, cluster, **settings(rng))
        for (who, kind), most in quotas.items():

            def held(job: Any, on: str, who: str = who, kind: str = kind) -> float:
                return float(job.scale_factor * (on == kind and job.entity == who))

            assert excess(run, held, most) <= HAIR, (seed, who, kind)
        assert run.on_average == ("constraint 3", "floor")
        assert run.summary()["kept_on_average"] == "constraint 3, floor"


@pytest.mark.parametrize("seeds", SEEDS)
def test_at_most_so_many_jobs_of_a_user_run_at_once(seeds: range) -> None:
    for seed in seeds:
        (load, cluster), rng = drawn(seed), np.random.default_rng(seed)
        policy = AtMost(int(rng.integers(1, 3)), barred="b" if seed % 2 else "")
        run = ap.simulate(policy, load, cluster, **settings(rng))
        for user in load.jobs["user"].unique():

            def mine(job: Any, _: str, user: str = user) -> float:
                return float(job.user == user)

            assert excess(run, mine, policy.jobs) <= HAIR, (seed, user)
        assert not (run.schedule["accelerator"] == policy.barred).any()


def test_exact_shares_keep_it_at_every_instant() -> None:
    load, cluster = drawn(1, gangs=(1,))
    load = replace(load, jobs=load.jobs.assign(power_w=100.0))
    policy = PowerCap((150.0, 320.0))
    run = ap.simulate(policy, load, cluster, mechanism="exact")
    rounds, most = run.rounds, [policy.cap(now_s + 1e-6) for now_s in run.rounds["start_s"]]
    watts = 100 * rounds[["a_busy", "b_busy"]].sum(axis=1) / (rounds["end_s"] - rounds["start_s"])
    assert (watts <= np.array(most) * (1 + 1e-6)).all()
    assert watts.max() == pytest.approx(max(most))
    assert run.on_average == ()


@pytest.mark.parametrize("seeds", MORE)
def test_pairs_count_as_the_constraint_says(seeds: range) -> None:
    """Two jobs on one GPU are two jobs of their users."""
    together = 0
    for seed in seeds:
        (load, cluster), rng = drawn(seed), np.random.default_rng(seed)
        speed = load.throughputs.to_numpy()
        keys = pd.MultiIndex.from_tuples(load.throughputs.index, names=["job_type", "scale_factor"])
        scale = keys.get_level_values("scale_factor").to_numpy()
        part = rng.uniform(0.4, 1, (len(keys), len(keys), 1)) * (scale[:, None] == scale)[..., None]
        own = speed[:, None] * part * (speed > 0)
        pairs = PairThroughputs(own, speed, keys, accelerators=("a", "b"))
        policy = AtMostInPairs(int(rng.integers(1, 3)))
        run = ap.simulate(policy, replace(load, pairs=pairs), cluster)
        for user in load.jobs["user"].unique():

            def mine(job: Any, _: str, user: str = user) -> float:
                return float(job.user == user)

            assert excess(run, mine, policy.jobs) <= HAIR, (seed, user)
        together += int(run.schedule.duplicated(["accelerator", "devices", "start_s"]).sum())
    assert together > 50


@pytest.mark.slow
def test_comparisons_and_sweeps_on_two_workers_keep_it(tmp_path: Path) -> None:
    load, cluster = drawn(2)
    quotas = tuple((who, kind, 4.0) for who in ("red", "blue", "green") for kind in "ab")
    policies = [PowerCap((450.0, 800.0)), Quotas(quotas)]
    compared = ap.compare(policies, load, cluster, n_jobs=2, out=tmp_path)
    swept = ap.sweep(policies, load, cluster, seeds=[0, 1], n_jobs=2).summary()
    for policy in policies:
        alone = ap.simulate(policy, load, cluster)
        run = compared[policy.label]
        pd.testing.assert_frame_equal(run.jobs, alone.jobs)
        assert run.on_average == alone.on_average
        mine = swept[swept["policy"] == policy.label]
        assert mine["mean_jct_s"].to_numpy() == pytest.approx(alone.summary()["mean_jct_s"])
    again = ap.compare(policies, load, cluster, out=tmp_path)  # read back
    assert again["quotas"].on_average == ("constraint 3", "floor")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Kept on average, not in each round: quotas: constraint 3, floor." in page
    assert swept["kept_on_average"].tolist() == ["", "constraint 3, floor"]


@pytest.mark.thorough
def test_what_cannot_be_kept_is_refused_in_words() -> None:
    load, cluster = drawn(3)
    with pytest.raises(ap.InputError, match=r"Job 'j0' .* can never run: .* 'power' allows 40, of"):
        ap.simulate(PowerCap((40.0,)), load, cluster)
    hourly = PowerCap((40.0, 30.0))
    one = replace(load, jobs=load.jobs.iloc[:1])
    with pytest.raises(
        ap.SolveError, match=r"no room for any. Job 'j0' .*'power' allows [34]0, of"
    ):
        ap.simulate(hourly, one, cluster)
    no_later = type("Now", (PowerCap,), {"next_change_s": lambda *_: 0.0})((900.0,))
    with pytest.raises(ap.InputError, match=r"next_change_s\(.*\) .* is 0.0; it must be a later"):
        ap.simulate(no_later, load, cluster)
    few = type("Few", (DallyRound,), {"constraints": lambda _, p: [cp.sum(p.time) <= 2]})()
    with pytest.raises(ap.InputError, match=r"\(constraint 1\), which mechanism='leases' cannot"):
        ap.simulate(few, ap.generate_rack_workload(jobs=3, seed=1), ap.Cluster.of_racks(2))


def test_a_gang_that_is_too_large_for_a_while_waits_and_others_go_on() -> None:
    load, cluster = drawn(4)
    watts = load.jobs["power_w"].where(load.jobs.index != "j2", 900.0)
    load = replace(load, jobs=load.jobs.assign(power_w=watts))
    run = ap.simulate(PowerCap((850.0, 950.0), 7200.0), load, cluster)
    stays = run.schedule[run.schedule["job"] == "j2"]
    assert (stays["start_s"] // 7200 % 2 == 1).all()
    assert ((stays["end_s"] - 1e-6) // 7200 == stays["start_s"] // 7200).all()
    assert run.schedule["start_s"].min() < 7200


@pytest.mark.slow
def test_a_mechanism_of_ones_own_keeps_it_on_average_and_that_is_said() -> None:
    class ByShares:
        """Rounds whose scheduler does not look at resources."""

        name = "by_shares"

        def parts(self, decider: Any, about: Any) -> Any:
            sharing = about.sharing(decider)
            told = about.place()
            scheduler = InRounds(told.jobs, told.devices, sharing, "by shares")
            return Parts(scheduler, about.fluid(), sharing.asked)

    load, cluster = drawn(5)
    run = ap.simulate(PowerCap((500.0,)), load, cluster, mechanism=ByShares())
    assert run.on_average == ("power",)
