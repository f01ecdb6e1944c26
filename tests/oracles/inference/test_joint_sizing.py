"""Serving and training as one program, against enumeration of everything."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
from tests.seeds import each_seed

from apportion.elastic import joint_sizing
from apportion.errors import InputError


def draw(seed: int) -> dict[str, Any]:
    """Return a small problem; often tight, sometimes impossible."""
    random = Random(seed)
    types, services = random.choice((1, 2)), random.choice((1, 1, 2))
    jobs, options, scenarios = random.randint(0, 3), random.randint(1, 4), random.randint(1, 5)
    weights = [random.randint(1, 4) for _ in range(scenarios)]
    return {
        "worth": np.array(
            [[random.choice((0.0, 1.0, 1.5, 2.25)) for _ in range(options)] for _ in range(jobs)]
        ).reshape(jobs, options),
        "gpus": [random.randint(1, 3) for _ in range(options)],
        "accelerator": [random.randrange(types) for _ in range(options)],
        "capacity": [random.randint(0, 4) for _ in range(types)],
        "demand": np.array(
            [[random.choice((0, 1, 2, 4)) for _ in range(services)] for _ in range(scenarios)]
        ),
        "epsilon": random.choice((0.0, 0.1, 0.3, 0.5)),
        "serves": np.array(
            [[random.choice((0.0, 1.0, 2.0)) for _ in range(types)] for _ in range(services)]
        ),
        "probability": np.array(weights) / sum(weights),
    }


def best(
    worth: Any,
    gpus: Any,
    accelerator: Any,
    capacity: Any,
    demand: Any,
    epsilon: float,
    serves: Any,
    probability: Any,
) -> float | None:
    """Return the most worth of all choices that serve with enough probability; None if none."""
    services, types = serves.shape
    found = None
    for chosen in product(*(range(-1, len(gpus)) for _ in worth)):
        left = list(capacity)
        for option in chosen:
            if option >= 0:
                left[accelerator[option]] -= gpus[option]
        value = sum(worth[job][option] for job, option in enumerate(chosen) if option >= 0)
        if min(left) < 0 or (found is not None and value <= found):
            continue
        splits = product(*(product(range(max(left) + 1), repeat=types) for _ in range(services)))
        for split in splits:
            n = np.array(split)
            if (n.sum(axis=0) > left).any():
                continue
            served = (serves * n).sum(axis=1)
            if probability[(demand <= served).all(axis=1)].sum() >= 1 - epsilon - 1e-12:
                found = value
                break
    return found


def compare(seed: int) -> None:
    problem = draw(seed)
    wanted = best(**problem)
    if wanted is None:
        with pytest.raises(InputError, match="No number of GPUs serves the demand"):
            joint_sizing(**problem)
        return
    got = joint_sizing(**problem)
    assert got.worth == pytest.approx(wanted, abs=1e-6)
    assert problem["probability"][got.kept].sum() >= 1 - problem["epsilon"] - 1e-12
    used = got.serving.sum(axis=0).astype(float)
    for job, option in enumerate(got.option.tolist()):
        if option >= 0:
            used[problem["accelerator"][option]] += problem["gpus"][option]
            assert problem["worth"][job][option] > 0
    assert (used <= problem["capacity"]).all()


@pytest.mark.parametrize("start", range(0, 40, 20))
def test_equal_to_enumeration(start: int) -> None:
    for seed in range(start, start + 20):
        compare(seed)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(100, 400, 50))
def test_equal_to_enumeration_many(start: int) -> None:
    for seed in range(start, start + 50):
        compare(seed)


@pytest.mark.parametrize("seed", each_seed(4, 20))
def test_one_service_on_one_type_has_the_quantile_of_its_demand(seed: int) -> None:
    rng = np.random.default_rng(seed)
    demand = rng.integers(0, 6, 9)
    sizes = np.arange(1, 5)
    worth = np.cumsum(rng.uniform(0.1, 1, (3, 4)), axis=1)
    kept = int(np.sort(demand)[int(np.ceil(0.8 * 9)) - 1])
    one = joint_sizing(worth, sizes, [0] * 4, [10], demand, epsilon=0.2)
    two = joint_sizing(worth, sizes, [0] * 4, [10 - kept], [0], epsilon=0.0)
    assert one.worth == pytest.approx(two.worth, rel=1e-7)
    assert one.serving.sum() >= kept


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"gpus": [1, 2]}, "worth has 1 options, gpus 2"),
        ({"demand": []}, "at least one scenario"),
        ({"epsilon": 1.0}, "epsilon is 1.0"),
        ({"probability": [0.5]}, "with the sum 0.5"),
        ({"serves": [1.0, 1.0]}, r"serves has the shape \(2,\)"),
        ({"accelerator": [-1]}, "the place of a type"),
        ({"demand": [9]}, "there are \\[4.0\\] by type"),
    ],
)
def test_what_is_no_problem(change: dict[str, Any], words: str) -> None:
    given: dict[str, Any] = {
        **{"worth": [[1.0]], "gpus": [1], "accelerator": [0], "capacity": [4], "demand": [1]}
    }
    with pytest.raises(InputError, match=words):
        joint_sizing(**(given | change))
