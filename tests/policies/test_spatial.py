from __future__ import annotations

from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.seeds import each_seed

from apportion.cluster import TIERS, Cluster
from apportion.errors import InputError
from apportion.policies import RoundPlacement, place_round, solve

if TYPE_CHECKING:
    from collections.abc import Sequence

Floats = NDArray[np.float64]
Racks = list[list[int]]
SEEDS = st.integers(0, 2**32 - 1)
few = settings(max_examples=12, deadline=None, derandomize=True)


def table(value: Any, ids: Sequence[str] | None = None) -> pd.DataFrame:
    numbers = np.asarray(value, dtype=float)
    names = [f"job-{place}" for place in range(len(numbers))] if ids is None else list(ids)
    return pd.DataFrame(numbers, index=names, columns=list(TIERS))


def draw(
    seed: int, jobs: int, racks: Sequence[int], gpus: int, largest: int
) -> tuple[pd.DataFrame, pd.Series, Racks]:
    rng = np.random.default_rng(seed)
    base = rng.uniform(0.5, 5.0, (jobs, 1))
    value = table(base * np.cumprod(np.hstack([np.ones((jobs, 1)), rng.random((jobs, 2))]), axis=1))
    value = value.where(rng.random((jobs, 3)) < 0.8, 0.0)
    gang = pd.Series(rng.integers(1, largest + 1, jobs), index=value.index)
    return value, gang, [rng.integers(0, gpus + 1, machines).tolist() for machines in racks]


def check(placed: RoundPlacement, value: pd.DataFrame, gang: pd.Series, free: Racks) -> None:
    """No GPU twice, gangs whole, each within its tier; the objective is the value of the tiers."""
    held = placed.gpus
    assert (held >= 0).to_numpy().all()
    available = [gpus for machines in free for gpus in machines]
    assert (held.sum(axis=0).to_numpy() <= available).all()
    total = 0.0
    rack = held.columns.get_level_values("rack").to_numpy()
    for job, tier in enumerate(placed.tier):
        row = held.to_numpy()[job]
        assert row.sum() == (gang.iloc[job] if tier is not None else 0)
        assert tier != "machine" or np.count_nonzero(row) == 1
        assert tier != "rack" or np.unique(rack[row > 0]).size == 1
        worth = 0.0 if tier is None else float(value[tier].iloc[job])
        total += worth
        assert tier is None or worth > 0
    assert placed.objective == pytest.approx(total)
    assert placed.objective <= placed.bound * (1 + 1e-9)


def best_of_all(value: pd.DataFrame, gang: pd.Series, free: Racks) -> float:
    """Try every tier and place for every job, one after the other."""
    flat = [(rack, gpus) for rack, machines in enumerate(free) for gpus in machines]
    worth, sizes = value.to_numpy(), gang.to_numpy()

    def best(job: int, machines: tuple[int, ...], racks: tuple[int, ...], left: int) -> float:
        if job == len(sizes):
            return 0.0
        size = int(sizes[job])
        found = best(job + 1, machines, racks, left)
        if left < size:
            return found
        for place, room in enumerate(machines):
            rack = flat[place][0]
            if worth[job, 0] > 0 and room >= size and racks[rack] >= size:
                fewer = (*machines[:place], room - size, *machines[place + 1 :])
                less = (*racks[:rack], racks[rack] - size, *racks[rack + 1 :])
                found = max(found, worth[job, 0] + best(job + 1, fewer, less, left - size))
        for rack, room in enumerate(racks):
            if worth[job, 1] > 0 and room >= size:
                less = (*racks[:rack], room - size, *racks[rack + 1 :])
                found = max(found, worth[job, 1] + best(job + 1, machines, less, left - size))
        if worth[job, 2] > 0:
            found = max(found, worth[job, 2] + best(job + 1, machines, racks, left - size))
        return found

    whole = tuple(sum(machines) for machines in free)
    return best(0, tuple(gpus for _, gpus in flat), whole, sum(whole))


def machine_by_machine(value: pd.DataFrame, gang: pd.Series, free: Racks) -> float:
    """Solve the program with a variable for each job and machine, each job and rack."""
    flat = np.array([gpus for machines in free for gpus in machines])
    rack = np.repeat(np.arange(len(free)), [len(machines) for machines in free])
    inside = (rack[:, None] == np.arange(len(free))).astype(float)
    worth, size = value.to_numpy(), gang.to_numpy()
    y = cp.Variable((size.size, flat.size), boolean=True)
    z = cp.Variable((size.size, len(free)), boolean=True)
    n = cp.Variable(size.size, boolean=True)
    v = cp.Variable((size.size, len(free)), integer=True)
    at = [cp.sum(y, axis=1), cp.sum(z, axis=1), n]
    constraints = [
        sum(at) <= 1,
        size @ y <= flat,
        v >= 0,
        cp.sum(v, axis=1) == cp.multiply(size, n),
    ]
    constraints += [size @ (y @ inside + z) + cp.sum(v, axis=0) <= np.array(list(map(sum, free)))]
    constraints += [at[tier] <= (worth[:, tier] > 0) for tier in range(3)]
    total = sum(worth[:, tier] @ at[tier] for tier in range(3))
    problem = cp.Problem(cp.Maximize(total), constraints)
    best: Any = problem.solve(solver=cp.HIGHS, mip_rel_gap=1e-7)
    return float(best)


@few
@given(seed=SEEDS)
def test_no_other_placement_is_worth_more(seed: int) -> None:
    rng = np.random.default_rng(seed)
    racks = rng.integers(1, 3, rng.integers(1, 3)).tolist()
    value, gang, free = draw(seed, int(rng.integers(1, 6)), racks, gpus=5, largest=6)
    placed = place_round(value, gang, free)
    check(placed, value, gang, free)
    assert placed.status == "optimal"
    assert placed.objective == pytest.approx(best_of_all(value, gang, free), rel=1e-6)


@pytest.mark.parametrize("seed", each_seed(2, 4))
def test_counting_gangs_loses_nothing(seed: int) -> None:
    value, gang, free = draw(seed, jobs=14, racks=[3, 3], gpus=8, largest=9)
    placed = place_round(value, gang, free)
    check(placed, value, gang, free)
    assert placed.objective == pytest.approx(machine_by_machine(value, gang, free), rel=1e-5)


@pytest.mark.thorough
@few
@given(seed=SEEDS, machines=st.integers(1, 3), racks=st.integers(1, 3))
def test_shares_of_time_are_worth_no_less_than_one_round(
    seed: int, machines: int, racks: int
) -> None:
    gpus, jobs = 8, 9
    value, gang, _ = draw(seed, jobs, [1], gpus, largest=min(10, gpus * machines * racks))
    value = value.where(value > 0, 0.1)
    cluster = Cluster.of_racks(racks, machines_per_rack=machines, gpus_per_machine=gpus)
    options = pd.MultiIndex.from_product([["gpu"], TIERS])
    tensor = value.set_axis(options, axis=1)
    shares = solve(
        "max_total_throughput", tensor, workers=cluster, jobs=gang.to_frame("scale_factor")
    )
    placed = place_round(value, gang, [rack.tolist() for rack in cluster.racks("gpu")])
    assert placed.bound <= shares.objective * (1 + 1e-6)


def test_a_gang_at_the_rack_tier_may_be_split_inside_its_rack() -> None:
    value = table([[0, 1, 0]])
    gang = pd.Series([4], index=value.index)
    placed = place_round(value, gang, [[1, 2, 1], [3, 0, 0]])
    assert placed.tier.tolist() == ["rack"]
    assert placed.gpus.to_numpy().tolist() == [[1, 2, 1, 0, 0, 0]]
    assert place_round(value, gang, [[3], [3]]).tier.tolist() == [None]


def test_a_gang_at_the_network_tier_may_have_any_gpus() -> None:
    value = table([[0, 0, 1]])
    placed = place_round(value, pd.Series([6], index=value.index), [[1, 2], [2, 1]])
    assert placed.tier.tolist() == ["network"]
    assert placed.gpus.to_numpy().tolist() == [[1, 2, 2, 1]]


def test_three_three_and_two_fill_a_machine_and_three_fives_need_three() -> None:
    value = table([[1, 0, 0]] * 3)
    together = place_round(value, pd.Series([3, 3, 2], index=value.index), [[8]])
    assert together.objective == pytest.approx(3)
    apart = place_round(value, pd.Series([5, 5, 5], index=value.index), [[8, 8]])
    assert apart.objective == pytest.approx(2)  # though 15 of 16 GPUs would do


def test_gangs_run_whole_or_not_at_all_and_small_ones_are_not_held_up() -> None:
    # One machine with 8 free GPUs, one with 2: the second large job waits, the small one does not.
    value = table([[9, 0, 0], [5, 0, 0], [1, 0, 0]], ids="bac")
    placed = place_round(value, pd.Series([8, 8, 2], index=list("bac")), [[8, 2]])
    assert placed.tier.tolist() == ["machine", None, "machine"]


def test_jobs_are_looked_up_by_name() -> None:
    value = table([[1, 0, 0], [1, 0, 0]], ids=["small", "large"])
    placed = place_round(value, pd.Series([9, 1], index=["large", "small"]), [[4]])
    assert placed.tier["small"] == "machine"
    assert placed.tier["large"] is None


@pytest.mark.parametrize("free", [[[0, 0]], [[], [0]]])
def test_nobody_runs_where_nothing_is_free(free: Racks) -> None:
    value = table([[1, 1, 1]])
    placed = place_round(value, pd.Series([1], index=value.index), free)
    assert placed.tier.tolist() == [None]
    assert placed.objective == placed.gap == 0


def test_a_round_without_jobs_is_a_round() -> None:
    placed = place_round(table(np.zeros((0, 3))), pd.Series(dtype=int), [[4]])
    assert placed.gpus.shape == (0, 1)
    assert placed.status == "optimal"


def test_a_search_that_is_cut_short_says_so() -> None:
    value, gang, free = draw(0, jobs=60, racks=[8, 8], gpus=8, largest=16)
    placed = place_round(value, gang, free, time_limit_s=1e-6)
    check(placed, value, gang, free)
    assert placed.status == "time_limit"
    assert 0 <= placed.gap < 1
    finished = place_round(value, gang, free)
    assert placed.objective > 0.5 * finished.objective  # in order of value, not nobody
    assert placed.objective <= finished.objective <= placed.bound * (1 + 1e-6)


def test_without_time_to_search_jobs_are_placed_in_order_of_value() -> None:
    for seed in range(4):
        value, gang, free = draw(seed, jobs=16, racks=[3, 2], gpus=4, largest=9)
        placed = place_round(value, gang, [[], *free], time_limit_s=1e-6)
        check(placed, value, gang, [[], *free])
        assert placed.objective > 0


def test_values_of_any_size_will_do() -> None:
    value, gang, free = draw(3, jobs=8, racks=[2, 2], gpus=4, largest=6)
    small, large = place_round(value * 1e-9, gang, free), place_round(value * 1e9, gang, free)
    assert small.objective * 1e9 == pytest.approx(large.objective * 1e-9)
    assert small.objective > 0


@pytest.mark.parametrize(
    ("value", "gang", "free", "words"),
    [
        ([[1, -1, 0]], [1], [[4]], r"'job-0' at tier 'rack' is -1\.0"),
        ([[1, np.nan, 0]], [1], [[4]], "'job-0' at tier 'rack' is nan"),
        ([[1, 1, 0]], [1.5], [[4]], r"'job-0' has scale_factor = 1\.5"),
        ([[1, 1, 0]], [0], [[4]], "'job-0' has scale_factor = 0"),
        ([[1, 1, 0]], [1], [], "no machines"),
        ([[1, 1, 0]], [1], [[4], [2, -1]], "free GPUs of machine 1 of rack 1 is -1"),
    ],
    ids=["negative", "nan", "fraction", "zero", "empty", "free"],
)
def test_what_cannot_be_is_refused_by_name(
    value: list[list[float]], gang: list[float], free: Racks, words: str
) -> None:
    frame = table(value)
    with pytest.raises(InputError, match=words):
        place_round(frame, pd.Series(gang, index=frame.index), free)


def test_unknown_tiers_and_jobs_are_refused_by_name() -> None:
    value = table([[1, 1, 1]])
    with pytest.raises(InputError, match=r"scale factor.*'job-0'.*mean 'job-1'"):
        place_round(value, pd.Series([1], index=["job-1"]), [[4]])
    wrong = value.rename(columns={"rack": "rak"})
    with pytest.raises(InputError, match=r"tier in the values 'rak'.*mean 'rack'"):
        place_round(wrong, pd.Series([1], index=value.index), [[4]])


def test_every_machine_is_used_by_all_tiers_together() -> None:
    for tiers in combinations_with_replacement(range(3), 3):
        value = table(np.eye(3)[list(tiers)])
        gang, free = pd.Series([4, 4, 4], index=value.index), [[4, 4], [4]]
        placed = place_round(value, gang, free)
        check(placed, value, gang, free)
        assert placed.objective == pytest.approx(3)
