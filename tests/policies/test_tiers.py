from __future__ import annotations

from itertools import combinations_with_replacement
from typing import Any

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from tests.seeds import each_seed, sampled

from apportion.cluster import TIERS, Cluster
from apportion.errors import InputError
from apportion.policies import BUILT_IN, Policy, solve
from apportion.tensor import ThroughputTensor

Floats = NDArray[np.float64]
CLUSTER = Cluster(
    {"a100": 32, "t4": 16},
    gpus_per_machine=8,
    machines_per_rack=2,
    prices_per_gpu_hour={"a100": 3.0, "t4": 0.5},
)
OPTIONS = pd.MultiIndex.from_product([CLUSTER.gpus, TIERS])


def draw(seed: int, gangs: list[int]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Steps/s that fall from tier to tier, and everything that a policy may ask for."""
    rng = np.random.default_rng(seed)
    jobs = len(gangs)
    own = rng.uniform(1, 20, (jobs, 2, 1))
    falling = np.cumprod(np.concatenate([np.ones((jobs, 2, 1)), rng.random((jobs, 2, 2))], 2), 2)
    ids = [f"job-{job}" for job in range(jobs)]
    speed = pd.DataFrame((own * falling).reshape(jobs, 6), index=ids, columns=OPTIONS)
    elapsed_s = rng.uniform(0, 600, jobs)
    table = pd.DataFrame(
        {
            "arrival_s": rng.uniform(0, 600, jobs),
            "scale_factor": gangs,
            "steps_remaining": rng.uniform(1e3, 1e5, jobs),
            "weight": rng.choice([1.0, 2.0], jobs),
            "entity": rng.choice(["red", "blue"], jobs),
            "deadline_s": elapsed_s + rng.uniform(1e5, 1e6, jobs),
            "elapsed_s": elapsed_s,
            "isolated_elapsed_s": elapsed_s * rng.uniform(0.5, 1.5, jobs),
            "network_priority": rng.choice([0.0, 0.1, 0.9], jobs),
        },
        index=ids,
    )
    return speed, table


GANGS = [3, 3, 2, 5, 5, 5, 6, 7, 7, 10, 11, 16, 20]


def packings(sizes: list[int], gpus: int) -> Floats:
    """Every multiset of gangs that fits."""
    most = gpus // min(sizes)
    found = [
        [gangs.count(size) for size in sizes]
        for number in range(most + 1)
        for gangs in combinations_with_replacement(sizes, number)
        if sum(gangs) <= gpus
    ]
    return np.array(found, dtype=float)


def written_out(X: cp.Variable, gang: Floats) -> list[Any]:
    """All constraints over X of shape (jobs, 6), with variables for the packing patterns."""
    constraints: list[Any] = [X >= 0, cp.sum(X, axis=1) <= 1]
    for place, gpus in enumerate(CLUSTER.counts.tolist()):
        machine, rack, network = (X[:, 3 * place + tier] for tier in range(3))
        constraints += [gang @ (machine + rack + network) <= gpus]
        constraints += [machine[gang > 8] == 0, rack[gang > 16] == 0, network[gang > gpus] == 0]
        for inside, room in ((machine, 8), (machine + rack, 16)):
            sizes = sorted({int(size) for size in gang if size <= room})
            of_size = np.array([gang == size for size in sizes], dtype=float)
            patterns = packings(sizes, room)
            y = cp.Variable(len(patterns), nonneg=True)
            constraints += [of_size @ inside <= patterns.T @ y, cp.sum(y) <= gpus // room]
    return constraints


def optimum(goal: str, speed: pd.DataFrame, jobs: pd.DataFrame) -> float:
    """Solve the problem written out in plain cvxpy."""
    T, gang = speed.to_numpy(), jobs["scale_factor"].to_numpy(dtype=float)
    best = np.stack([np.where(_fits(gang, slice(3 * j, 3 * j + 3)), T[:, 3 * j : 3 * j + 3], 0)
                     .max(axis=1) for j in (0, 1)], axis=1)  # fmt: skip
    X = cp.Variable(T.shape)
    throughput = cp.sum(cp.multiply(T, X), axis=1)
    equal = best @ CLUSTER.counts / CLUSTER.total_gpus
    priority = np.maximum(jobs["network_priority"].to_numpy(), 1e-3)
    terms = {
        "max_total_throughput": cp.sum(throughput),
        "max_min_fairness": cp.min(cp.multiply(gang / (jobs["weight"] * equal), throughput)),
        "makespan": cp.min(cp.multiply(1e4 / jobs["steps_remaining"].to_numpy(), throughput)),
        "network_sensitive": cp.sum(cp.multiply(1 / priority / best.max(axis=1), throughput)),
    }
    problem = cp.Problem(cp.Maximize(terms[goal]), written_out(X, gang))
    reached: Any = problem.solve(solver=cp.HIGHS)
    return 1e4 / float(reached) if goal == "makespan" else float(reached)


def _fits(gang: Floats, options: slice) -> NDArray[np.bool_]:
    most = np.array([8, 16, 32, 8, 16, 16])[options]
    return gang[:, None] <= most


def check_feasible(X: pd.DataFrame, jobs: pd.DataFrame) -> None:
    """Look for packing patterns that make room for X."""
    gang = jobs["scale_factor"].to_numpy(dtype=float)
    shares = X.to_numpy()
    assert shares.min() >= 0
    free = cp.Variable(X.shape)
    slack = cp.Variable(nonneg=True)
    held = cp.Problem(cp.Minimize(slack), [*written_out(free, gang), free >= shares - slack])
    least: Any = held.solve(solver=cp.HIGHS)
    assert least <= 1e-7


@pytest.mark.parametrize("seed", each_seed(1, 3))
@pytest.mark.parametrize(
    "goal", ["max_total_throughput", "max_min_fairness", "makespan", "network_sensitive"]
)
def test_optima_are_those_of_the_problem_with_packing_patterns(goal: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    speed, jobs = draw(seed, [*rng.choice(GANGS, 12), 5, 3])
    allocation = solve(goal, speed, workers=CLUSTER, jobs=jobs)
    assert allocation.objective == pytest.approx(optimum(goal, speed, jobs), rel=1e-8)
    check_feasible(allocation.X, jobs)


@pytest.mark.parametrize("policy", sampled(BUILT_IN, 4), ids=lambda policy: policy.name)
def test_every_policy_solves_over_tiers(policy: type[Policy]) -> None:
    speed, jobs = draw(7, GANGS)
    allocation = solve(policy(), speed, workers=CLUSTER, jobs=jobs)
    assert allocation.gap <= 1e-6
    assert allocation.status == "optimal"
    check_feasible(allocation.X, jobs)
    assert allocation.X.to_numpy().sum() > 0


def one_type(*tiers: str) -> pd.MultiIndex:
    return pd.MultiIndex.from_product([["a100"], tiers])


def same_speed(gangs: list[int], *tiers: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    ids = [f"job-{place}" for place in range(len(gangs))]
    speed = pd.DataFrame(1.0, index=ids, columns=one_type(*tiers))
    return speed, pd.DataFrame({"scale_factor": gangs}, index=ids)


def total(gangs: list[int], tiers: list[str], workers: Cluster, **options: Any) -> float:
    speed, jobs = same_speed(gangs, *tiers)
    solved = solve("max_total_throughput", speed, workers=workers, jobs=jobs, **options)
    return solved.objective


def test_three_three_and_two_run_at_once_in_one_machine() -> None:
    assert total([3, 3, 2], ["machine"], Cluster({"a100": 8}, 8)) == pytest.approx(3)


def test_three_gangs_of_five_take_turns_on_two_machines_of_eight() -> None:
    two = Cluster({"a100": 16}, gpus_per_machine=8)
    assert total([5, 5, 5], ["machine"], two) == pytest.approx(2)
    assert total([5, 5, 5], ["machine"], two, gang_packing=False) == pytest.approx(3)
    assert total([5, 5, 5], ["machine", "network"], two) == pytest.approx(3)


def test_a_rack_holds_the_gangs_in_its_machines_too() -> None:
    # Two racks of 2 machines of 8. A gang of 7 in a machine leaves no room for one of 10 in its
    # rack: at best one rack holds a 10, the other both 7. By GPUs only a fifth of a 10 is missing.
    racks = Cluster.of_racks(2, machines_per_rack=2, accelerator="a100")
    tiers = ["machine", "rack"]
    assert total([10, 10, 7, 7], tiers, racks) == pytest.approx(3)
    assert total([10, 10, 7, 7], tiers, racks, gang_packing=False) == pytest.approx(3.8)
    assert total([10, 10, 6, 6], tiers, racks) == pytest.approx(4)


def test_gangs_that_divide_a_machine_need_no_capacity_but_the_gpus() -> None:
    speed, jobs = same_speed([1, 2, 4, 8, 16], "machine", "rack", "network")
    racks = Cluster.of_racks(2, machines_per_rack=2, accelerator="a100")
    solved = solve("max_min_fairness", speed, workers=racks, jobs=jobs)
    assert list(solved.prices.index) == ["a100"]
    odd = solve("max_min_fairness", speed, workers=racks, jobs=jobs.replace(8, 7))
    assert list(odd.prices.index[:2]) == ["a100", "a100 machine packing 1"]


def test_the_price_of_packing_is_what_a_machine_is_worth() -> None:
    # Machines bind and GPUs do not: one machine more lets one gang more run.
    speed, jobs = same_speed([5, 5, 5], "machine")
    two = Cluster({"a100": 16}, gpus_per_machine=8)
    prices = solve("max_total_throughput", speed, workers=two, jobs=jobs).prices
    assert prices["a100"] == pytest.approx(0, abs=1e-8)
    assert prices.drop("a100").sum() == pytest.approx(1)


def test_a_gang_larger_than_a_machine_does_not_run_in_one() -> None:
    speed, jobs = same_speed([5], "machine", "rack")
    small = Cluster({"a100": 8}, gpus_per_machine=4)
    X = solve("max_total_throughput", speed, workers=small, jobs=jobs).X
    assert X.loc["job-0", ("a100", "machine")] == 0
    with pytest.raises(InputError, match=r"'job-0' fits nowhere: it needs 5 GPUs"):
        solve("max_total_throughput", speed[[("a100", "machine")]], workers=small, jobs=jobs)


def test_a_combination_takes_the_room_of_one_gang() -> None:
    tensor = ThroughputTensor.of_combinations(
        {("x",): [[1.0]], ("y",): [[1.0]], ("x", "y"): [[0.8], [0.8]]}, list(one_type("machine"))
    )
    jobs = pd.DataFrame({"scale_factor": [5, 3]}, index=["x", "y"])
    tight = Cluster({"a100": 6}, gpus_per_machine=6)
    solved = solve("max_total_throughput", tensor, workers=tight, jobs=jobs)
    assert solved.objective == pytest.approx(1.6)
    assert solved.X.to_numpy().tolist() == [[0], [0], [pytest.approx(1)]]


@pytest.mark.parametrize(
    ("cluster", "words"),
    [
        (Cluster({"a100": 10}, 8), "must be a multiple of 8"),
        (Cluster({"a100": 24}, 8, 2), "must be a multiple of 16"),
    ],
    ids=["machine", "rack"],
)
def test_machines_and_racks_must_be_whole(cluster: Cluster, words: str) -> None:
    speed, jobs = same_speed([3], "machine", "rack")
    with pytest.raises(InputError, match=words):
        solve("max_total_throughput", speed, workers=cluster, jobs=jobs)
    solve("max_total_throughput", speed, workers=cluster, jobs=jobs, gang_packing=False)


def test_a_type_without_gpus_is_no_type() -> None:
    speed, jobs = draw(0, [3, 5])
    none = Cluster({"a100": 16, "t4": 0}, gpus_per_machine=8, machines_per_rack=2)
    X = solve("max_total_throughput", speed, workers=none, jobs=jobs).X
    assert (X["t4"] == 0).to_numpy().all()


def test_an_unknown_tier_beside_known_ones_is_refused() -> None:
    speed, jobs = same_speed([1], "machine", "rak")
    with pytest.raises(InputError, match=r"tier in the throughput tensor 'rak'.*mean 'rack'"):
        solve("max_total_throughput", speed, workers=Cluster({"a100": 4}), jobs=jobs)


def test_many_gang_sizes_are_bounded_and_the_allocation_says_so() -> None:
    speed, jobs = same_speed(list(range(1, 12)), "machine")
    solved = solve("max_min_fairness", speed, workers=Cluster({"a100": 22}, 11), jobs=jobs)
    assert solved.message == "Bounded, not exact, for many gang sizes: a100 machine packing."
    few, table = same_speed([3, 5], "machine")
    assert (
        solve("max_min_fairness", few, workers=Cluster({"a100": 22}, 11), jobs=table).message == ""
    )


def test_an_allocation_over_tiers_can_be_shown() -> None:
    speed, jobs = same_speed([3], "machine", "rack")
    shown = repr(solve("fifo", speed, workers=Cluster({"a100": 8}, 8), jobs=jobs))
    assert "steps/s" in shown.splitlines()[1]


def test_the_job_that_lost_most_to_the_network_comes_first() -> None:
    # Done 300 steps of 2 s in 900 s: 2/3. Done 100 steps of 1 s in 500 s: 1/5. Never ran: 0.
    speed, jobs = same_speed([4, 4, 4], "machine")
    jobs["network_priority"] = [300 * 2 / 900, 100 * 1 / 500, 0.0]
    one = Cluster({"a100": 4})
    X = solve("network_sensitive", speed, workers=one, jobs=jobs).X
    assert X["a100", "machine"].tolist() == pytest.approx([0, 0, 1])
    X = solve("network_sensitive", speed[:2], workers=one, jobs=jobs[:2]).X
    assert X["a100", "machine"].tolist() == pytest.approx([0, 1])


@pytest.mark.parametrize("policy", ["isolated", "proportional", "nash_welfare", "strategy_proof"])
def test_a_job_alone_runs_at_its_fastest_tier_all_the_time(policy: str) -> None:
    options = pd.MultiIndex.from_product([["v100"], list(TIERS)])
    speed = pd.DataFrame([[1.0, 0.5, 0.1]], index=["a"], columns=options)
    cluster = Cluster({"v100": 64}, gpus_per_machine=8, machines_per_rack=4)
    assert solve(policy, speed, workers=cluster).throughput["a"] == pytest.approx(1.0)


def test_fixed_shares_take_the_next_tier_where_a_machine_has_no_room() -> None:
    options = pd.MultiIndex.from_product([["v100"], list(TIERS)])
    speed = pd.DataFrame([[1.0, 0.5, 0.1], [1.0, 0.9, 0.1]], index=list("ab"), columns=options)
    jobs = pd.DataFrame({"scale_factor": [5, 5]}, index=list("ab"))
    cluster = Cluster({"v100": 8}, gpus_per_machine=8, machines_per_rack=1)
    X = solve("isolated", speed, workers=cluster, jobs=jobs).X["v100"]
    assert X.to_numpy().sum(axis=1).tolist() == pytest.approx(
        [0.8, 0.8]
    )  # 8 GPUs / 2 jobs / 5 GPUs
    assert X["machine"].sum() == pytest.approx(1.0)  # one gang of 5 at a time
