"""Groups that pass rates on: levels against a step for each stop, rates against a walk down."""

import numpy as np
import pytest

from apportion.policies import HierarchicalFairness, Instance, Problem
from apportion.policies.solving.worst_off.line_path import CrowdPath, LinePath
from apportion.policies.solving.worst_off.own_limits import OwnLimits, Path
from apportion.policies.solving.worst_off.stated_rates import AlikePath, Rise
from apportion.policies.solving.worst_off.water_filling import Steady
from apportion.policies.water_filling import RatesOfGroups

NAMES = ("a", "b/x", "b/y/i", "b/y/j", "c")


def drawn(rng: np.random.Generator) -> tuple[RatesOfGroups, OwnLimits, np.ndarray, np.ndarray]:
    """Draw jobs in lines and in crowds, some of which have stopped, and some on their way."""
    jobs, groups = int(rng.integers(1, 30)), int(rng.integers(1, 6))
    weight = rng.integers(1, 4, groups).astype(float)

    def share(alive: np.ndarray) -> np.ndarray:
        passed = np.where(alive, weight, 0.0)
        return np.asarray(passed / passed.sum())

    place = rng.integers(int(rng.choice([1, 3, 100])), size=jobs).astype(float)
    part, per = rng.choice([1.0, 2.0, 0.3], jobs), rng.choice([1.0, 4.0], jobs)
    rates = RatesOfGroups(groups, rng.integers(groups, size=jobs), place, part, per, share)
    most = np.round(rng.lognormal(size=jobs), int(rng.choice([1, 8]))) + 0.1
    active = rng.random(jobs) < rng.choice([0.6, 1.0])
    active[0] = True
    level = most * rng.choice([0.0, 0.0, 0.5, 1.0], jobs)
    return rates, OwnLimits(most, np.zeros(jobs), 0.0), active, level


def compare(line: Rise, path: Path, most: np.ndarray, active: np.ndarray, seed: int) -> None:
    """Check that a line has the levels of a path."""
    last, rng = line.until(np.inf), np.random.default_rng(seed)
    assert last == pytest.approx(path.until(np.inf), rel=1e-12)
    assert line.first == pytest.approx(path.first, rel=1e-12)
    if not last > 0:
        return
    assert not line.standing(last).any()
    stops = path.height[np.diff(path.height, prepend=-1.0) > 1e-9]
    between = (stops[1:] + stops[:-1]) / 2
    for height in [*between, *rng.uniform(0, path.until(np.inf), 3)]:
        if np.abs(stops - height).min() < 1e-9:
            continue
        known, slope = path.along(height)
        found, rises = line.along(height)
        np.testing.assert_allclose(found, known, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(rises, slope, rtol=1e-7, atol=1e-9)
        np.testing.assert_array_equal(line.standing(height), path.standing(height))
    np.testing.assert_array_equal(line.along(last)[0][active], most[active])


@pytest.mark.parametrize("part", range(4))
def test_levels_are_those_of_a_path_of_single_stops(part: int) -> None:
    for seed in range(50):
        rates, limits, active, level = drawn(np.random.default_rng([31, part, seed]))
        path = Path.of(Steady(rates), limits, active, level)
        for line in (LinePath, CrowdPath):
            found = line(rates, limits.most, active, level)
            compare(found, path, limits.most, active, seed)


def test_levels_of_jobs_that_rise_alike_are_those_of_single_stops() -> None:
    for seed in range(50):
        _, limits, active, level = drawn(np.random.default_rng([32, seed]))
        path = Path.of(Steady(lambda rising: rising.astype(float)), limits, active, level)
        compare(AlikePath(limits.most, active, level), path, limits.most, active, seed)


def part_of(name: str, living: set[str], weights: dict[str, float]) -> float:
    """Multiply what each node has of its parent's rate, from an entity up to the root."""
    part, node = 1.0, name
    while node:
        parent = node.rpartition("/")[0]
        depth = node.count("/") + 1
        beside = {"/".join(each.split("/")[:depth]) for each in living}
        beside = {each for each in beside if each.rpartition("/")[0] == parent}
        part *= weights[node] / sum(weights[each] for each in beside)
        node = parent
    return part


@pytest.mark.parametrize("seed", range(20))
def test_rates_are_split_down_the_tree(seed: int) -> None:
    rng = np.random.default_rng([37, seed])
    nodes = sorted({"/".join(n.split("/")[: k + 1]) for n in NAMES for k in range(3)})
    weights: dict[str, float] = {}
    inner = {"b": "fifo", "b/y/j": "fairness", "c": "shortest_job_first"}
    policy = HierarchicalFairness(weights=weights, inner=inner)
    jobs = int(rng.integers(1, 12))
    leaf, order = rng.integers(len(NAMES), size=jobs), rng.permutation(jobs).astype(float)
    weight, gpus = rng.choice([1.0, 2.0], jobs), rng.choice([1.0, 4.0], jobs)
    steps = rng.uniform(1, 9, jobs)
    columns = {"entity": leaf.astype(float), "order": order, "weight": weight}
    instance = Instance.of_jobs(
        *(np.full((jobs, 2), 1.0), gpus, [2.0, 2.0]),
        columns=columns | {"steps_remaining": steps},
        texts={"entity": NAMES},
    )
    for _ in range(3):
        weights.update(zip(nodes, rng.integers(1, 5, len(nodes)).tolist(), strict=True))
        active = rng.random(jobs) < 0.7
        active[0] = True
        rates = policy.rates(Problem(instance))(active)
        for job in range(jobs):
            mine = np.flatnonzero(active & (leaf == leaf[job]))
            name, line = NAMES[leaf[job]], weight[mine] * (mine == job)
            line = line / max(weight[mine].sum(), 1.0)
            if name in {"b/x", "b/y/i"} and mine.size:
                line = (mine == mine[order[mine].argmin()]) & (mine == job)
            if name == "c" and mine.size:
                line = (mine == mine[steps[mine].argmin()]) & (mine == job)
            living = {NAMES[each] for each in leaf[active]}
            expected = line.sum() and line.sum() * part_of(name, living, weights) / gpus[job]
            assert rates[job] == pytest.approx(expected, rel=1e-12)
