"""Power caps against linear programs written from the definition, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog
from tests.seeds import sampled

import apportion as ap

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

TYPES = ("v100", "p100", "k80")
WATTS = np.array([300.0, 300.0, 150.0])
"""Of the data sheets; a K80 board of 300 W holds two."""


def best(speed: Floats, gang: Floats, weight: Floats, gpus: Floats, cap_w: float) -> float:
    """Largest least normalised throughput: columns are shares, job by job, then the least."""
    jobs, types = speed.shape
    equal = speed @ gpus / gpus.sum()
    per_step = gang / weight / equal
    rows, limits = [], []
    for job in range(jobs):
        own = np.eye(jobs)[job][:, None] * np.ones(types)
        rows += [np.append(own, 0.0), np.append((-own * per_step[job] * speed), 1.0)]
        limits += [1.0, 0.0]
    for kind in range(types):
        rows.append(np.append(gang[:, None] * np.eye(types)[kind], 0.0))
        limits.append(gpus[kind])
    rows.append(np.append(gang[:, None] * WATTS[:types], 0.0))
    limits.append(cap_w)
    cost = np.append(np.zeros(jobs * types), -1.0)
    found = linprog(cost, A_ub=np.array(rows), b_ub=np.array(limits), bounds=(0, None))
    assert found.status == 0
    return -float(found.fun or 0.0)


def problem(seed: int, jobs: int = 8, types: int = 3) -> dict[str, Any]:
    """Draw jobs that run on every type, and GPUs of each."""
    rng = np.random.default_rng(seed)
    speed = np.exp(rng.normal(0, 1, (jobs, types))) * 10.0 ** rng.uniform(-1, 2, (jobs, 1))
    gpus = rng.integers(4, 9, types).astype(float)
    facts = {"gang": rng.choice([1.0, 2.0, 4.0], jobs), "weight": rng.uniform(0.5, 2, jobs)}
    return {"speed": speed, "gpus": gpus, **facts}


def solved(policy: ap.Policy | str, case: dict[str, Any]) -> ap.Allocation:
    jobs = [f"job {k}" for k in range(len(case["speed"]))]
    types = list(TYPES[: case["gpus"].size])
    table = {"scale_factor": case["gang"].astype(int), "weight": case["weight"]}
    return ap.solve(
        policy,
        pd.DataFrame(case["speed"], index=jobs, columns=types),
        workers=dict(zip(types, case["gpus"].astype(int).tolist(), strict=True)),
        jobs=pd.DataFrame(table, index=jobs),
    )


def drawn_w(case: dict[str, Any], found: ap.Allocation) -> float:
    shares = found.X[[*TYPES[: case["gpus"].size]]].to_numpy()
    return float((case["gang"] @ shares) @ WATTS[: case["gpus"].size])


@pytest.mark.parametrize("seed", sampled(range(24), 6))
def test_it_is_the_optimum_of_a_linear_program(seed: int) -> None:
    types = 1 + seed % 3
    case = problem(seed, types=types)
    full_w = float(WATTS[:types] @ case["gpus"])
    for part in (0.1, 0.45, 0.8):
        found = solved(ap.PowerCapped(cap_w=part * full_w), case)
        assert found.objective == pytest.approx(best(cap_w=part * full_w, **case), rel=1e-6)
        assert drawn_w(case, found) <= part * full_w * (1 + 1e-9)
        assert found.gap <= 1e-6


def test_a_cap_above_all_power_changes_nothing_and_a_cap_of_nothing_leaves_nothing() -> None:
    case = problem(3)
    plain, full_w = solved("max_min_fairness", case), float(WATTS @ case["gpus"])
    for cap_w in (full_w, 10 * full_w, np.inf):
        capped = solved(ap.PowerCapped(cap_w=cap_w), case)
        assert capped.objective == pytest.approx(plain.objective, rel=1e-9)
        np.testing.assert_allclose(capped.throughput, plain.throughput, rtol=1e-6)
    nothing = solved(ap.PowerCapped(cap_w=0.0), case)
    assert nothing.objective == 0
    assert not nothing.X.to_numpy().any()
    assert not nothing.throughput.any()


def test_watts_of_ones_own_come_before_those_of_data_sheets() -> None:
    case = problem(5, types=2)
    of_own = solved(ap.PowerCapped(cap_w=900.0, watts={"v100": 200.0, "p100": 200.0}), case)
    in_proportion = solved(ap.PowerCapped(cap_w=1350.0), case)
    assert of_own.objective == pytest.approx(in_proportion.objective, rel=1e-9)


def test_what_cannot_be_is_refused_in_words() -> None:
    with pytest.raises(ap.InputError, match=r"cap_w is -1.*number of watts"):
        ap.PowerCapped(cap_w=-1)
    with pytest.raises(ap.InputError, match=r"watts of 'v100' is -3"):
        ap.PowerCapped(cap_w=1, watts={"v100": -3})
    speeds = pd.DataFrame({"v100": [1.0], "npu": [2.0]}, index=["a"])
    with pytest.raises(ap.InputError, match=r"'npu' is none of.*watts=\{'npu': 300.0\}"):
        ap.solve(ap.PowerCapped(cap_w=500), speeds, workers={"v100": 1, "npu": 1})
    found = ap.solve("power_capped", speeds, workers={"v100": 1, "npu": 1})
    assert found.throughput["a"] == pytest.approx(2, rel=1e-15)
    given = ap.PowerCapped(cap_w=500, watts={"npu": 100.0})
    assert ap.solve(given, speeds, workers={"v100": 1, "npu": 1}).throughput["a"] == 2


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(4))
def test_no_round_draws_more_than_the_cap(seed: int) -> None:
    load = ap.generate_workload(jobs=12, seed=seed, jobs_per_hour=8)
    run = ap.simulate(ap.PowerCapped(cap_w=900.0), load, "v100=4,p100=4,k80=4")
    lasted_s = run.rounds["end_s"] - run.rounds["start_s"]
    watts = sum(run.rounds[f"{name}_busy"] * each for name, each in zip(TYPES, WATTS, strict=True))
    assert (watts / lasted_s).max() <= 900 + 1e-6
    assert run.on_average == ()


def test_a_job_that_no_cap_leaves_room_for_is_named() -> None:
    load = ap.generate_workload(jobs=3, seed=0)
    with pytest.raises(ap.InputError, match=r"(?s)[Jj]ob .*power cap"):
        ap.simulate(ap.PowerCapped(cap_w=100.0), load, "v100=4,p100=4,k80=4")
