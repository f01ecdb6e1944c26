"""Policies about entities against levels found by halving, linear programs, and by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog
from tests.seeds import each_seed
from tests.sim.rounds.capped import drawn, excess

import apportion as ap


def levelled(used: np.ndarray, most: np.ndarray, gpus: float) -> np.ndarray:
    """GPUs of entities such that what they have and have had is level, as far as they can use it.

    The sum of logarithms is largest where all that is given raises the lowest.
    """
    low, high, level = 0.0, float((used + most).max()), 0.0
    if most.sum() <= gpus:
        return most
    for _ in range(200):
        level = (low + high) / 2
        given = np.clip(level - used, 0.0, most).sum()
        low, high = (level, high) if given < gpus else (low, level)
    return np.clip(level - used, 0.0, most)


@pytest.mark.parametrize("seed", each_seed(8, 25))
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


def test_much_past_use_beside_many_jobs() -> None:
    """What entities have had is a constant in each logarithm, at which Clarabel alone gave up."""
    rng = np.random.default_rng(39)
    for jobs, past in ((179, 20.0), (60, 500.0), (300, 3.0)):
        speed = np.exp(rng.normal(0, 1.0, (jobs, 3))) * (rng.random((jobs, 3)) > 0.2) + 1e-3
        entity = rng.integers(0, 3, jobs)
        used_s = 1e6 * past * rng.random(3)
        names = [f"job {k}" for k in range(jobs)]
        table = {"entity": [f"group {k}" for k in entity], "entity_used_s": used_s[entity]}
        found = ap.solve(
            ap.FairOverTime(window_s=1e6),
            pd.DataFrame(speed, index=names, columns=["a", "b", "c"]),
            workers={"a": 28, "b": 19, "c": 43},
            jobs=pd.DataFrame(table, index=names),
        )
        assert found.gap < 1e-10
        # No tangent of a concave sum is below it: what it gains on the tangent is all that is left.
        worth = speed / speed.max(axis=1)[:, None]
        has = used_s / 1e6 + np.bincount(entity, (found.X.to_numpy() * worth).sum(axis=1), 3)
        slope = worth / has[entity][:, None]
        time = np.kron(np.eye(jobs), np.ones(3))
        gpus = np.tile(np.eye(3), jobs)
        best = linprog(
            -slope.ravel(),
            A_ub=np.vstack([time, gpus]),
            b_ub=np.append(np.ones(jobs), [28, 19, 43]),
        )
        assert -float(best.fun or 0.0) - (slope * found.X.to_numpy()).sum() < 1e-6


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


@pytest.mark.thorough
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


def lent(case: dict[str, Any]) -> tuple[float, float]:
    """Least GPUs missing to quotas, and the most that jobs make then, by two linear programs.

    Variables are X line by line, then what each entity misses.
    """
    speed, scale, entity = case["speed"], case["scale"], case["entity"]
    n, k = speed.shape
    entities = len(case["quota"])
    gain = (scale[:, None] * speed / speed.max(axis=1)[:, None]).ravel()
    held = np.array([np.repeat(scale * (entity == e), k) for e in range(entities)])
    none, own = np.zeros((n + k, entities)), np.eye(entities)
    time = np.kron(np.eye(n), np.ones(k))
    used = np.kron(scale, np.eye(k))
    due = np.minimum(case["quota"], np.bincount(entity, weights=scale, minlength=entities))
    rows = [np.hstack([np.vstack([time, used]), none]), np.hstack([-held, -own])]
    right = [np.ones(n), case["gpus"], -due]
    told = np.isfinite(case["most"])
    rows.append(np.hstack([held, 0 * own])[told])
    right.append((case["quota"] + case["most"])[told])
    bounds = [(0, None if fast > 0 else 0) for fast in speed.ravel()] + [(0, None)] * entities
    missing = np.append(np.zeros(n * k), np.ones(entities))
    first: Any = linprog(missing, np.vstack(rows), np.concatenate(right), bounds=bounds)
    rows.append(missing[None])
    right.append(np.array([first.fun + 1e-9]))
    cost = np.append(-gain, np.zeros(entities))
    second: Any = linprog(cost, np.vstack(rows), np.concatenate(right), bounds=bounds)
    return float(first.fun), -float(second.fun)


@pytest.mark.parametrize("seed", each_seed(8, 30))
def test_quotas_come_first_and_the_rest_is_lent(seed: int) -> None:
    rng = np.random.default_rng(seed)
    entities, n, k = int(rng.integers(1, 4)), int(rng.integers(1, 9)), int(rng.integers(1, 4))
    speed = rng.uniform(1, 9, (n, k)) * (rng.random((n, k)) < 0.8)
    speed[np.arange(n), rng.integers(0, k, n)] += 1.0
    case: dict[str, Any] = {
        "speed": speed,
        "scale": rng.choice([1.0, 2.0, 4.0], n),
        "entity": rng.integers(0, entities, n),
        "gpus": rng.integers(4, 8, k).astype(float),
        "quota": rng.integers(0, 7, entities).astype(float),
        "most": np.where(rng.random(entities) < 0.5, rng.integers(0, 3, entities), np.inf),
    }
    case["entity"][0] = 0  # whose name a quota has
    names, types = [f"job {j}" for j in range(n)], list("abc"[:k])
    table = pd.DataFrame(
        {"entity": [f"e{e}" for e in case["entity"]], "scale_factor": case["scale"].astype(int)},
        index=names,
    )
    policy = ap.Cohort(
        quotas={f"e{e}": quota for e, quota in enumerate(case["quota"])},
        borrowing={f"e{e}": most for e, most in enumerate(case["most"]) if np.isfinite(most)},
    )
    workers = dict(zip(types, case["gpus"].astype(int).tolist(), strict=True))
    tensor = pd.DataFrame(speed, index=names, columns=types)
    found = ap.solve(policy, tensor, workers=workers, jobs=table)
    missing, best = lent(case)
    held = np.bincount(
        case["entity"], weights=case["scale"] * found.X.sum(axis=1), minlength=entities
    )
    due = np.minimum(
        case["quota"], np.bincount(case["entity"], weights=case["scale"], minlength=entities)
    )
    assert np.maximum(due - held, 0).sum() == pytest.approx(missing, abs=1e-6)
    assert found.objective == pytest.approx(best, abs=1e-6)
    assert (held <= case["quota"] + case["most"] + 1e-9).all()


@pytest.mark.parametrize("seed", range(3))
def test_nobody_ever_borrows_more_than_it_may(seed: int) -> None:
    load, cluster = drawn(seed, gangs=(1, 1, 2))
    quotas, borrowing = {"red": 2.0, "blue": 1.0, "green": 2.0}, {"red": 1.0, "blue": 1.0}
    run = ap.simulate(ap.Cohort(quotas=quotas, borrowing=borrowing), load, cluster)
    for who, more in borrowing.items():

        def held(job: Any, on: str, who: str = who) -> float:
            return float(job.scale_factor * (job.entity == who))

        assert excess(run, held, quotas[who] + more) <= 1e-6


def test_quotas_of_entities_that_nobody_knows_are_told(caplog: pytest.LogCaptureFixture) -> None:
    jobs = pd.DataFrame({"entity": ["vision"]}, index=["a"])
    tensor = pd.DataFrame({"v100": [3.0]}, index=["a"])
    ap.solve(ap.Cohort(quotas={"vison": 3}), tensor, workers={"v100": 1}, jobs=jobs)
    assert "Did you mean 'vision'" in caplog.records[0].getMessage()
    with pytest.raises(ap.InputError, match="quotas of entity 'vision' is -1"):
        ap.Cohort(quotas={"vision": -1})


def test_a_round_begins_with_what_entities_have_had() -> None:
    speeds = pd.DataFrame({"v100": 1.0}, index=["a", "b"])
    for used, first in (([0.0, 1e6], "a"), ([1e6, 0.0], "b")):
        jobs = pd.DataFrame({"entity": ["x", "y"], "entity_used_s": used}, index=["a", "b"])
        table = jobs.assign(steps_remaining=1e5, elapsed_s=[1e5, 2e5])
        for decider in ("fair_over_time", "slurm"):
            assert list(ap.solve_round(decider, speeds, "v100=1", jobs=table).running) == [first]
