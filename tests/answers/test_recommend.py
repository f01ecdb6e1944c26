from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

import apportion as ap
from apportion.answers.evidence import MOST_LOOKS, SequentialTest
from apportion.answers.fewest import read_goal
from apportion.errors import InputError
from benchmarks.answers.planted import OnFirst, OnSecond, planted_log

if TYPE_CHECKING:
    from pathlib import Path

SPEC = {"jobs": 25, "jobs_per_hour": 10.0}


def runs_of(logs: dict[str, np.ndarray]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"policy": policy, "seed": seed, "mean_jct_s": value}
            for policy, values in logs.items()
            for seed, value in enumerate(np.exp(values))
        ]
    )


@pytest.mark.slow
def test_a_race_of_equals_is_seldom_won_at_any_look() -> None:
    """Five equals, four looks: at most 5 % of 200 races drop anybody (by the bound)."""
    rng, won = np.random.default_rng(0), 0
    names = tuple("abcde")
    for _ in range(200):
        values = rng.normal(0, 0.1, (5, 16)) + rng.normal(0, 0.5, 16)
        for look, count in enumerate((4, 8, 12, 16), start=1):
            race = SequentialTest("mean_jct_s", 0.95, names, resampled=False)
            runs = runs_of(dict(zip(names, values[:, :count], strict=True)))
            if race.losers(runs, names, look):
                won += 1
                break
    assert won <= 0.05 * 200 + 3 * np.sqrt(200 * 0.05 * 0.95)


def test_the_level_of_a_pair_is_shared_out() -> None:
    race = SequentialTest("mean_jct_s", 0.95, tuple("abcde"), resampled=False)
    assert race.level_of_pair == pytest.approx(1 - 0.05 / (MOST_LOOKS * 10))


def test_equals_that_are_known_well_differ_by_nothing_that_matters() -> None:
    """Two policies apart by .2 %, known to .05 %: sure, and too little to drop anybody."""
    rng = np.random.default_rng(1)
    base = rng.normal(0, 0.5, 16)
    apart = {"a": base, "b": base + 0.002 + rng.normal(0, 0.0005, 16)}
    runs = runs_of(apart)
    race = SequentialTest("mean_jct_s", 0.99, ("a", "b"), resampled=False)
    assert race.difference(runs, "b", "a").low > 1
    assert not race.losers(runs, ("a", "b"), 1)
    assert race.alike(runs, ("a", "b"))
    assert not race.same(runs, ("a", "b"))


@pytest.mark.thorough
def test_losers_are_dropped_early_and_the_best_is_told(tmp_path: Path) -> None:
    policies = ["fcfs", "shortest_job_first", "max_min_fairness"]
    given = (policies, {"jobs": 40, "jobs_per_hour": 12.0}, "v100=8")
    found = ap.recommend(*given, looks=[4, 8], out=tmp_path, n_jobs=1)
    table = found.table()
    assert table.index[0] in found.left
    assert table["mean_jct_s"].idxmin() == table.index[0]
    assert found.left == [each for each in policies if each not in found.dropped]
    assert found.unbeaten(policies) == found.left
    assert set(found.left) | set(found.dropped) == set(policies)
    assert str(found) == str(ap.recommend(*given, looks=[4, 8], out=tmp_path, n_jobs=1))
    assert "Take" in str(found) or "No difference" in str(found)
    for label, (better, look) in found.dropped.items():
        apart = found.race.difference(found.runs, label, better)
        assert apart.low > 1
        assert table.loc[label, "draws"] == [4, 8][look - 1]


def test_the_same_policy_under_two_names_makes_no_difference() -> None:
    found = ap.recommend(["fcfs", "easy"], SPEC, "v100=64", looks=[2, 3], n_jobs=1)
    assert found.best is None
    assert found.sentence() == "No difference between fcfs, easy: the same mean JCT in every draw."
    assert set(found.runs["seed"]) == {0, 1}


@pytest.mark.thorough
def test_a_planted_gain_of_a_log_is_held_by_the_interval() -> None:
    log = planted_log(0, 1.2, 120)
    found = ap.recommend([OnFirst(), OnSecond()], log, "a=120,b=120", looks=[4, 8], n_jobs=1)
    apart = found.race.difference(found.runs, "on_second", "on_first")
    assert apart.low < 1 / 1.2 < apart.high
    assert found.best == "on_second"
    assert "resamples of stretches of one log" in str(found)


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"policies": ["fcfs"]}, "two policies"),
        ({"figure": "mean"}, "figure"),
        ({"looks": [8, 4]}, "growing"),
        ({"looks": []}, "growing"),
        ({"looks": range(2, 11)}, "8 at most"),
        ({"level": 1.0}, "level"),
    ],
)
def test_races_that_cannot_be_are_refused(change: dict[str, object], wrong: str) -> None:
    given = {"policies": ["fcfs", "easy"], "workload": SPEC, "cluster": "v100=4", **change}
    with pytest.raises(InputError, match=wrong):
        ap.recommend(**given)  # type: ignore[arg-type]


@pytest.mark.thorough
def test_the_fewest_gpus_are_those_that_trying_all_finds() -> None:
    goal = "p90 wait under 1 h"
    found = ap.fewest_for_wait("fcfs", SPEC, "v100=4", goal, draws=3, n_jobs=1)
    means = {}
    for gpus in range(4, found.safe + 5, 4):
        waits = [
            ap.simulate(
                "fcfs",
                ap.generate_workload(jobs=25, jobs_per_hour=10.0, seed=seed),
                {"v100": gpus},
                preemption_overhead_seconds="measured",
            )
            .jobs["queueing_s"]
            .quantile(0.9)
            for seed in range(3)
        ]
        means[gpus] = np.mean(waits)
    assert found.gpus == next(gpus for gpus, wait in means.items() if wait <= 3600)
    assert found.few <= found.gpus <= found.safe
    simulated = found.table.set_index("gpus")["wait_s"].to_dict()
    for size, wait_s in simulated.items():
        if size in means:
            assert wait_s == pytest.approx(means[int(str(size))])
    assert all(one >= other for one, other in pairwise(simulated.values()))
    assert goal in found.sentence()


@pytest.mark.parametrize("text", ["p95 wait", "p0 wait under 2 h", "p95 wait under 0 h", "", "2 h"])
def test_goals_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="p95 wait under 2 h"):
        read_goal(text)


def test_goals_are_read() -> None:
    assert read_goal("p99.5 wait below 90 min")[:2] == (0.995, 5400.0)
