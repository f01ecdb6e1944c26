"""Groups that pass rates on: levels against a step for each stop, rates against a walk down."""

import numpy as np
import pytest

from apportion.policies import HierarchicalFairness, Instance, Problem

NAMES = ("a", "b/x", "b/y/i", "b/y/j", "c")


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
