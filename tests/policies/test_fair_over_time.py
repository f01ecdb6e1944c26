"""Fair shares over time against levels found by halving, and by hand in a run."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

import apportion as ap


def levelled(used: np.ndarray, most: np.ndarray, gpus: float) -> np.ndarray:
    """GPUs of entities such that what they have and have had is level, as far as they can use it.

    The sum of logarithms is largest where all that is given raises the lowest.
    """
    low, high = 0.0, float((used + most).max())
    if most.sum() <= gpus:
        return most
    for _ in range(200):
        level = (low + high) / 2
        given = np.clip(level - used, 0.0, most).sum()
        low, high = (level, high) if given < gpus else (low, level)
    return np.clip(level - used, 0.0, most)


@pytest.mark.parametrize("seed", range(25))
def test_entities_are_raised_to_one_level(seed: int) -> None:
    rng = np.random.default_rng(seed)
    entities, jobs = int(rng.integers(1, 5)), int(rng.integers(1, 12))
    entity = rng.integers(0, entities, jobs)
    used_s = (rng.uniform(0, 2e5, entities) * (rng.random(entities) < 0.7)).round()
    scale, speed = rng.choice([1, 1, 2, 4], jobs), rng.uniform(1, 100, jobs)
    gpus, window_s = int(rng.integers(4, 20)), float(rng.choice([3600.0, 21600.0]))
    names = [f"job {k}" for k in range(jobs)]
    table = pd.DataFrame(
        {
            "scale_factor": scale,
            "entity": [f"group {k}" for k in entity],
            "entity_used_s": used_s[entity],
        },
        index=names,
    )
    policy = ap.FairOverTime(window_s=window_s)
    tensor = pd.DataFrame({"a100": speed}, index=names)
    found = ap.solve(policy, tensor, workers={"a100": gpus}, jobs=table)
    here = np.unique(entity)
    most = np.bincount(entity, weights=scale, minlength=entities)[here]
    expected = levelled(used_s[here] / window_s, most, gpus)
    held = found.X["a100"].to_numpy() * scale
    got = np.bincount(entity, weights=held, minlength=entities)[here]
    np.testing.assert_allclose(got, expected, atol=1e-4 * gpus)
    best = np.log(used_s[here] / window_s + expected).sum()
    assert found.objective == pytest.approx(best, abs=1e-6)
    assert found.status == "optimal"


def test_who_had_much_waits_until_the_others_have_caught_up() -> None:
    """One GPU: six hours of the first are paid back, then both have half."""
    jobs = pd.DataFrame(
        {"entity": ["early", "late"], "entity_used_s": [21600.0, 0.0]}, index=["a", "b"]
    )
    tensor = pd.DataFrame({"v100": [3.0, 5.0]}, index=["a", "b"])
    found = ap.solve("fair_over_time", tensor, workers={"v100": 1}, jobs=jobs)
    assert found.X["v100"].tolist() == pytest.approx([0.0, 1.0], abs=1e-5)
    longer = ap.FairOverTime(window_s=5 * 21600.0)
    found = ap.solve(longer, tensor, workers={"v100": 1}, jobs=jobs)
    assert found.X["v100"].tolist() == pytest.approx([0.4, 0.6], abs=1e-5)
    assert found.objective == pytest.approx(2 * math.log(0.6))


def test_a_user_of_few_jobs_waits_less_than_behind_many() -> None:
    """Forty jobs of one user first, then two of another: the two do not wait for the forty."""
    rng = np.random.default_rng(3)
    rows = [(f"heavy {k}", 0.0, "heavy") for k in range(40)]
    rows += [(f"light {k}", 4 * 3600.0, "light") for k in range(2)]
    jobs = pd.DataFrame(rows, columns=["job", "arrival_s", "entity"]).set_index("job")
    jobs = jobs.assign(job_type="m", scale_factor=1, total_steps=rng.uniform(2000, 7200, 42))
    index = pd.MultiIndex.from_tuples([("m", 1)], names=["job_type", "scale_factor"])
    load = ap.Workload("users", jobs, pd.DataFrame({"a100": [1.0]}, index=index))
    wait_s = {
        name: ap.simulate(name, load, {"a100": 4}).jobs["jct_s"][-2:].mean()
        for name in ("fcfs", "hierarchical_fairness", "fair_over_time")
    }
    assert wait_s["fair_over_time"] < 1.5 * jobs["total_steps"][-2:].mean()
    assert wait_s["fair_over_time"] < wait_s["hierarchical_fairness"] < wait_s["fcfs"]


@pytest.mark.parametrize("name", ["half_life_s", "window_s"])
def test_lengths_of_time_are_checked(name: str) -> None:
    wrong: Any = {name: -1}
    with pytest.raises(ap.InputError, match=f"{name} is -1"):
        ap.FairOverTime(**wrong)
