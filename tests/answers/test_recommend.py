from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import apportion as ap
from apportion.errors import InputError
from benchmarks.answers.planted import OnFirst, OnSecond, planted_log

if TYPE_CHECKING:
    from pathlib import Path

NAMES = "abcde"
SPEC = {"jobs": 25, "jobs_per_hour": 10.0}
FREE = ap.Cluster({"v100": 8}, prices_per_gpu_hour={"v100": 0.0})


def found_of(logs: np.ndarray, level: float, *, resampled: bool = False) -> ap.Recommendation:
    """Recommend among policies whose logarithms of the figure are known, a row for each."""
    runs = [
        {"policy": NAMES[row], "seed": seed, "mean_jct_s": np.exp(each), "jobs": 1000}
        for row, values in enumerate(logs)
        for seed, each in enumerate(values)
    ]
    return ap.Recommendation("mean_jct_s", level, pd.DataFrame(runs), resampled=resampled)


@pytest.mark.parametrize("resampled", [False, True])
def test_intervals_are_students_at_a_level_shared_by_the_pairs_with_the_best(
    resampled: bool,
) -> None:
    rng = np.random.default_rng(int(resampled))
    logs = rng.normal(8, 0.5, 7) + rng.normal(0, 0.1, (4, 7)) + np.array([[0.2], [0], [0.1], [0.9]])
    table = found_of(logs, 0.9, resampled=resampled).table()
    first = int(logs.mean(axis=1).argmin())
    assert table.index[0] == NAMES[first]
    for row in set(range(4)) - {first}:
        apart = logs[row] - logs[first]
        scale = apart.std(ddof=1) * np.sqrt(1 + 1 / 7 if resampled else 1 / 7)
        ends = stats.t.interval(1 - 0.1 / 3, 6, loc=apart.mean(), scale=scale)
        told = list(table.loc[NAMES[row], ["ratio", "low", "high"]])
        assert told == pytest.approx(np.exp([apart.mean(), *ends]).tolist())


def test_more_resamples_of_a_log_do_not_make_it_surer() -> None:
    """They do of a generator; a log stays as short as it is."""
    rng = np.random.default_rng(0)
    logs = rng.normal(0, 0.1, (2, 400)) + np.array([[0.0], [0.1]])
    assert found_of(logs, 0.99).best == "a"
    assert found_of(logs, 0.99, resampled=True).best is None


def test_who_is_named_is_truly_best() -> None:
    """Equals and unequals, at a level of 80 %: who is named, and that a best one is left."""
    rng, wrong, named = np.random.default_rng(5), 0, 0
    for _ in range(100):
        truth = rng.choice([0.0, 0.0, 0.05, 0.3], int(rng.integers(2, 6)))
        noise = rng.normal(0, rng.choice([0.03, 0.1]), (truth.size, 12))
        left = found_of(truth[:, None] + rng.normal(0, 0.5, 12) + noise, 0.8).left
        best = [NAMES[row] for row in np.flatnonzero(truth == truth.min())]
        named += len(left) == 1
        wrong += not set(best) & set(left) or (len(left) == 1 and best != left)
    assert named > 20
    assert wrong <= 0.2 * 100


def test_a_log_too_short_to_tell_gives_no_digits() -> None:
    found = found_of(np.array([[0.0, 3.0, 0.0], [2.0, -2.0, 1.0]]), 0.99)
    assert found.sentence() == (
        "No difference in mean JCT that is more than chance between a, b; more draws may tell them "
        "apart."
    )
    assert "an interval over 10 times wide" in str(found)


@pytest.mark.thorough
def test_the_answer_is_that_of_a_sweep_and_goes_on_from_its_folder(tmp_path: Path) -> None:
    policies = ["fcfs", "shortest_job_first", "max_min_fairness"]
    given = (policies, {"jobs": 40, "jobs_per_hour": 12.0}, "v100=8")
    found = ap.recommend(*given, draws=6, out=tmp_path, n_jobs=1)
    swept = ap.sweep(*given, seeds=range(6), n_jobs=1).table()
    figures = swept.pivot_table(index="policy", columns="seed", values="mean_jct_s")
    logs, table = np.log(figures.loc[policies].to_numpy()), found.table()
    first, second = np.argsort(logs.mean(axis=1))[:2]
    assert found.best == policies[first]
    for row in {0, 1, 2} - {first}:
        apart = logs[row] - logs[first]
        ends = stats.t.interval(1 - 0.01 / 2, 5, loc=apart.mean(), scale=stats.sem(apart))
        told = list(table.loc[policies[row], ["low", "high"]])
        assert told == pytest.approx(np.exp(ends).tolist())
    assert table["mean_jct_s"].to_dict() == pytest.approx(figures.mean(axis=1).to_dict())
    gain = 1 - np.exp((logs[first] - logs[second]).mean())
    said = f"Take {policies[first]}: {gain:.1%} less mean JCT than {policies[second]} ["
    assert found.sentence().startswith(said)
    assert str(found) == str(ap.recommend(*given, draws=6, out=tmp_path, n_jobs=1))


def test_the_same_policy_under_two_names_makes_no_difference() -> None:
    found = ap.recommend(["fcfs", "easy"], SPEC, "v100=64", draws=2, n_jobs=1)
    assert found.best is None
    assert found.sentence() == "No difference between fcfs, easy: the same mean JCT in every draw."
    assert set(found.runs["seed"]) == {0, 1}


@pytest.mark.thorough
def test_a_planted_gain_of_a_log_is_held_by_the_interval() -> None:
    log = planted_log(0, 1.2, 120)
    found = ap.recommend([OnFirst(), OnSecond()], log, "a=120,b=120", draws=8, n_jobs=1)
    apart = found.table().loc["on_first"]
    assert apart["low"] < 1.2 < apart["high"]
    assert found.best == "on_second"
    assert "resamples of stretches of one log" in str(found)


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"policies": ["fcfs"]}, "two policies"),
        ({"figure": "mean"}, "figure"),
        ({"draws": 1}, "draws"),
        ({"level": 1.0}, "level"),
        (
            {"figure": "cost", "cluster": FREE, "draws": 2},
            "cost is 0 or unknown in every draw; choose among mean_jct_s",
        ),
    ],
)
def test_recommendations_that_cannot_be_are_refused(change: dict[str, object], wrong: str) -> None:
    given = {"policies": ["fcfs", "easy"], "workload": SPEC, "cluster": "v100=4", **change}
    with pytest.raises(InputError, match=wrong):
        ap.recommend(**given)  # type: ignore[arg-type]
