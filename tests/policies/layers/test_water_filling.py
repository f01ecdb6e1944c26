from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from tests.seeds import each_seed, ranges_of_seeds

import apportion as ap
from apportion.errors import InputError
from apportion.policies import HierarchicalFairness, Problem

Floats = NDArray[np.float64]
INSTANCE = (
    Path(__file__).parents[3].parent / "shared/data/gavel_instances/hierarchical_128_jobs.json"
)


def test_lexicographic_finish_times_by_hand() -> None:
    # Only a runs on the K80 beside the V100 that b and c want: they are the ones to suffer.
    T = pd.DataFrame({"v100": [1.0, 1.0, 1.0], "k80": [1.0, 0.0, 0.0]}, index=["a", "b", "c"])
    jobs = pd.DataFrame({"steps_remaining": 900.0, "elapsed_s": 0.0}, index=T.index)
    policy = ap.FinishTimeFairness(lexicographic=True)
    a = ap.solve(policy, T, workers={"v100": 1, "k80": 1}, jobs=jobs)
    np.testing.assert_allclose(a.throughput, [1.0, 0.5, 0.5], rtol=1e-5)


def test_two_entities_by_hand() -> None:
    T = pd.DataFrame({"v100": [1.0, 1.0, 1.0]}, index=["a", "b", "c"])
    jobs = pd.DataFrame({"entity": ["x", "x", "y"]}, index=T.index)
    even = ap.solve(HierarchicalFairness(), T, workers={"v100": 1}, jobs=jobs)
    np.testing.assert_allclose(even.throughput, [0.25, 0.25, 0.5], atol=1e-8)
    policy = HierarchicalFairness(weights={"x": 3, "y": 1})
    weighted = ap.solve(policy, T, workers={"v100": 1}, jobs=jobs)
    np.testing.assert_allclose(weighted.throughput, [0.375, 0.375, 0.25], atol=1e-8)
    queue = ap.solve(HierarchicalFairness(inner="fifo"), T, workers={"v100": 1}, jobs=jobs)
    np.testing.assert_allclose(queue.throughput, [0.5, 0.0, 0.5], atol=1e-8)


def test_what_a_job_cannot_use_goes_to_its_entity_first() -> None:
    T = pd.DataFrame({"v100": [1.0] * 4}, index=list("abcd"))
    jobs = pd.DataFrame({"entity": ["x", "x", "y", "y"], "weight": [9.0, 1, 1, 1]}, index=T.index)
    # Entity x has one of two GPUs: its heavy job cannot use 0.9 of 2 more than one GPU's time.
    policy = HierarchicalFairness(weights={"x": 2, "y": 1})
    a = ap.solve(policy, T, workers={"v100": 2}, jobs=jobs)
    np.testing.assert_allclose(a.throughput, [1.0, 1 / 3, 1 / 3, 1 / 3], atol=1e-8)


def test_three_levels_of_entities() -> None:
    T = pd.DataFrame({"v100": [1.0] * 3}, index=list("abc"))
    jobs = pd.DataFrame({"entity": ["u/x", "u/y", "v"]}, index=T.index)
    policy = HierarchicalFairness(weights={"u": 1, "u/x": 3, "u/y": 1, "v": 1})
    a = ap.solve(policy, T, workers={"v100": 1}, jobs=jobs)
    np.testing.assert_allclose(a.throughput, [0.375, 0.125, 0.5], atol=1e-8)


@pytest.mark.parametrize("weight", [0, -1.0, float("nan")])
def test_weights_of_entities_are_positive(weight: float) -> None:
    with pytest.raises(ap.InputError, match="'x'"):
        HierarchicalFairness(weights={"x": weight})


def test_entities_and_weights_must_match() -> None:
    T = pd.DataFrame({"v100": [1.0, 1.0]}, index=["a", "b"])
    jobs = pd.DataFrame({"entity": ["physics", "biology"]}, index=T.index)
    for weights, message in (
        ({"phisics": 1.0, "biology": 1.0}, "'physics' has no weight; .* 'phisics', 'biology'"),
        ({"physics": 1.0}, "Entity 'biology' has no weight"),
    ):
        with pytest.raises(ap.InputError, match=message):
            ap.solve(HierarchicalFairness(weights=weights), T, workers={"v100": 1}, jobs=jobs)
    with pytest.raises(ap.InputError, match="no column 'entity'"):
        ap.solve(HierarchicalFairness(), T, workers={"v100": 1})


@pytest.mark.skipif(not INSTANCE.exists(), reason="needs ../shared/data/gavel_instances")
@pytest.mark.parametrize("group", [True, False])
def test_the_published_instance_of_128_jobs(group: bool) -> None:
    given = json.loads(INSTANCE.read_text())
    T = pd.DataFrame({job["id"]: job["throughput"] for job in given["jobs"]}).T
    jobs = pd.DataFrame(
        {
            "scale_factor": [job["scale_factor"] for job in given["jobs"]],
            "entity": [job["entity"] for job in given["jobs"]],
        },
        index=T.index,
    )
    workers = {name: int(count) for name, count in given["workers"].items()}
    policy = HierarchicalFairness(weights=given["entity_weights"])
    a = ap.solve(policy, T[list(workers)], workers=workers, jobs=jobs, group=group)
    share = T[list(workers)] @ pd.Series(workers) / sum(workers.values())
    level = (a.throughput / share).to_numpy()
    np.testing.assert_allclose(level, given["expected"]["normalized_throughput"], atol=1e-6)
    assert level.sum() == pytest.approx(143.01133185533195, abs=1e-5)


INNER: Any = ("fairness", "fifo", "shortest_job_first", "makespan", "finish_time_fairness")


@pytest.mark.parametrize("seeds", ranges_of_seeds(4, 100))
def test_entities_share_among_their_jobs_as_each_of_them_says(seeds: range) -> None:
    """A GPU of one type for each entity: closed forms, whatever the others choose."""
    for seed in seeds:
        rng = np.random.default_rng(seed)
        n = 4 * len(INNER)
        speed = rng.uniform(1, 5, n)
        elapsed = rng.uniform(0, 2000, n)
        columns = {
            "entity": np.repeat(INNER, 4),
            "steps_remaining": rng.uniform(1e4, 3e4, n),
            "elapsed_s": elapsed,
            "isolated_elapsed_s": elapsed * rng.uniform(0.3, 1, n),
            "weight": rng.choice([1.0, 2.0], n),
            "arrival_s": rng.permutation(n).astype(float),
        }
        jobs = pd.DataFrame(columns, index=[f"j{k:02d}" for k in range(n)])
        table = pd.DataFrame({"g": speed}, index=jobs.index)
        policy = HierarchicalFairness(inner={name: name for name in INNER})
        found = ap.solve(policy, table, workers={"g": len(INNER)}, jobs=jobs)
        share = {name: found.X["g"][jobs["entity"] == name] for name in INNER}
        of = {name: jobs[jobs["entity"] == name] for name in INNER}
        weight = of["fairness"]["weight"]
        np.testing.assert_allclose(share["fairness"], weight / weight.sum(), rtol=1e-6)
        first = of["fifo"]["arrival_s"].argmin()
        np.testing.assert_allclose(share["fifo"], np.eye(4)[first], atol=1e-9)
        left_s = jobs["steps_remaining"] / speed
        shortest = left_s[of["shortest_job_first"].index].argmin()
        np.testing.assert_allclose(share["shortest_job_first"], np.eye(4)[shortest], atol=1e-9)
        together = left_s[of["makespan"].index]
        np.testing.assert_allclose(share["makespan"], together / together.sum(), rtol=1e-6)
        late = of["finish_time_fairness"]
        steps, pace = late["steps_remaining"], found.throughput[late.index]
        alone_s = late["isolated_elapsed_s"] + steps / (table["g"][late.index] * len(INNER) / n)
        ratio = (late["elapsed_s"] + steps / pace) / alone_s
        np.testing.assert_allclose(ratio, ratio.iloc[0], rtol=1e-6)
        assert share["finish_time_fairness"].sum() == pytest.approx(1.0)


@dataclass(frozen=True)
class Roots(ap.Policy):
    """Gains fall with the square root."""

    def objective(self, p: Problem) -> cp.Maximize:
        return cp.Maximize(p.count @ cp.sqrt(p.throughput))


@dataclass(frozen=True)
class Dearest(ap.Policy):
    """A job of twice the weight is worth three times as much."""

    columns = ("weight",)

    def objective(self, p: Problem) -> cp.Maximize:
        return cp.Maximize(
            p.total(cp.multiply(p.weight ** np.log2(3) / p.fastest_throughput, p.throughput))
        )


@pytest.mark.parametrize("seed", each_seed(2, 4))
def test_an_entity_shares_by_any_policy(seed: int) -> None:
    """One type and more jobs than GPUs: an entity has its part, and closed forms divide it."""
    rng = np.random.default_rng(seed)
    inner: dict[str, Any] = {"a": Roots(), "b": "nash_welfare", "c": Dearest()}
    names = pd.Index([f"j{k:02d}" for k in range(15)])
    weight = np.tile([1.0, 2.0, 4.0, 8.0, 16.0], 3)
    jobs = pd.DataFrame({"entity": np.repeat(list(inner), 5), "weight": weight}, index=names)
    speed = rng.uniform(1, 5, 15)
    part = {"a": 1.0, "b": 0.5, "c": 2.5}  # GPUs
    policy = HierarchicalFairness(weights=part, inner=inner)
    found = ap.solve(policy, pd.DataFrame({"g": speed}, index=names), workers={"g": 4}, jobs=jobs)
    share = found.X["g"].to_numpy().reshape(3, 5)
    np.testing.assert_allclose(share[0], speed[:5] / speed[:5].sum(), rtol=1e-5)
    np.testing.assert_allclose(share[1], 0.5 * weight[:5] / weight[:5].sum(), rtol=1e-5)
    np.testing.assert_allclose(share[2], [0, 0, 0.5, 1, 1], atol=1e-8)


def test_inner_policies_that_cannot_be_are_refused() -> None:
    with pytest.raises(InputError, match="told by their paths"):
        HierarchicalFairness(inner="hierarchical_fairness")
    with pytest.raises(InputError, match="Did you mean 'nash_welfare'"):
        HierarchicalFairness(inner={"a": "nash_welfar"})


def test_an_inner_policy_of_an_unknown_entity_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(InputError, match="Did you mean 'physics'"):
        HierarchicalFairness(weights={"physics": 1, "bio": 2}, inner={"phisics": "fifo"})
    T = pd.DataFrame({"v100": [1.0, 1.0]}, index=["a", "b"])
    jobs = pd.DataFrame({"entity": ["physics/lasers", "biology"]}, index=T.index)
    for inner in ({"phisics": "fifo"}, {"physics": "nash_welfare"}, {"physics/laser": "fifo"}):
        policy = HierarchicalFairness(inner=inner)
        for _ in range(2):
            ap.solve(policy, T, workers={"v100": 1}, jobs=jobs)
    told = [record.getMessage().partition("? ")[0] for record in caplog.records]
    assert told == [
        "No job is of it: Unknown entity in inner 'phisics'. Did you mean 'physics'",
        "No job is of it: Unknown entity in inner 'physics/laser'. Did you mean 'physics/lasers'",
    ]


def test_an_entity_whose_jobs_have_left_keeps_its_weight() -> None:
    policy = HierarchicalFairness(weights={"a": 1, "b": 3}, inner={"b": "fifo"})
    told = {name: {"entity": name, "arrival_s": 0.0} for name in ("a", "b")}
    live = ap.session(policy, {"v100": 1})
    live.add({name: {"v100": 2.0} for name in told}, told)
    np.testing.assert_allclose(live.solve().X["v100"], [0.25, 0.75], rtol=1e-6)
    live.remove("b")
    np.testing.assert_allclose(live.solve().X["v100"], [1.0], rtol=1e-6)
    live.add({"c": {"v100": 2.0}}, {"c": {"entity": "c", "arrival_s": 1.0}})
    with pytest.raises(InputError, match="Entity 'c' has no weight; weights are given for 'a'"):
        live.solve()


@dataclass(frozen=True)
class FilledByWeight(ap.Policy):
    """A policy without any base: all progress rises at once, faster by weight."""

    name = "filled_by_weight"
    source = "a test"
    columns = ("weight",)
    lexicographic: bool = True

    def utility(self, p: Problem) -> cp.Expression:
        return cp.multiply(1 / p.fastest_throughput, p.throughput)

    def rates(self, p: Problem) -> Any:
        return lambda active: np.where(active, p.weight, 0.0)

    def objective(self, p: Problem) -> cp.Maximize:
        return cp.Maximize(cp.min(cp.multiply(1 / p.weight, self.utility(p))))


def test_a_policy_of_ones_own_is_filled_to_the_last_level() -> None:
    """c cannot use the v100; its k80 is more than its weight asks for until it has all of it."""
    table = pd.DataFrame({"v100": [2.0, 4.0, 0.0], "k80": [0.0, 0.0, 1.0]}, index=list("abc"))
    jobs = pd.DataFrame({"weight": [1.0, 3.0, 1.0]}, index=table.index)
    found = ap.solve(FilledByWeight(), table, workers={"v100": 1, "k80": 1}, jobs=jobs)
    np.testing.assert_allclose(found.throughput, [0.5, 3.0, 1.0], rtol=1e-12)
    assert found.objective == pytest.approx(0.25)


def test_a_job_that_waits_goes_on_where_types_are_left() -> None:
    """The first two fill the fast type; the last one makes what the slow type leaves."""
    table = pd.DataFrame({"fast": [4.0] * 3, "slow": [1.0] * 3}, index=list("abc"))
    jobs = pd.DataFrame({"entity": "a", "arrival_s": [0.0, 1.0, 2.0]}, index=table.index)
    policy = HierarchicalFairness(inner="fifo")
    found = ap.solve(policy, table, workers={"fast": 2, "slow": 1}, jobs=jobs)
    np.testing.assert_allclose(found.X, [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], atol=1e-12)


def test_many_levels_do_not_depend_on_the_order_of_jobs() -> None:
    """Beyond 200 rows the vertex that was found is the answer."""
    rng = np.random.default_rng(7)
    names = pd.Index([f"j{k:03d}" for k in range(250)])
    table = pd.DataFrame(rng.uniform(1, 10, (250, 3)), index=names, columns=["a", "b", "c"])
    jobs = pd.DataFrame({"entity": rng.choice(["x", "y", "z"], 250)}, index=names)
    workers, policy = {"a": 20, "b": 25, "c": 30}, HierarchicalFairness(inner="fifo")
    found = ap.solve(policy, table, workers=workers, jobs=jobs)
    mixed = rng.permutation(names)
    again = ap.solve(policy, table.loc[mixed], workers=workers, jobs=jobs.loc[mixed])
    np.testing.assert_allclose(again.X.loc[names], found.X, atol=1e-12)
