"""Races and bisections against what running everything, and trying every number, finds."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

import apportion as ap
from apportion.answers.evidence import LOOKS, SequentialTest
from apportion.answers.fewest import _Bisection

NAMES = "abcde"


def raced(logs: np.ndarray, names: str) -> list[str]:
    """Race policies whose logarithms of the figure are known for every draw; return who is left."""
    left = list(names)
    test = SequentialTest("mean_jct_s", 0.99, tuple(names), resampled=False)
    for look, count in enumerate(LOOKS, start=1):
        runs = pd.DataFrame(
            [
                {"policy": name, "seed": seed, "mean_jct_s": np.exp(logs[names.index(name), seed])}
                for name in left
                for seed in range(count)
            ]
        )
        losers = test.losers(runs, left, look)
        left = [name for name in left if name not in losers]
        if len(left) == 1 or test.same(runs, left) or test.alike(runs, left):
            break
    return left


def enumerated(logs: np.ndarray, names: str) -> tuple[list[str], dict[str, float]]:
    """Return, from all draws of all policies, whom no other beats, and the mean of each."""
    count, pairs = logs.shape[1], len(names) * (len(names) - 1) / 2
    level = 1 - 0.01 / (8 * pairs)
    beaten = set()
    for one, other in combinations(range(len(names)), 2):
        apart = logs[one] - logs[other]
        half = student.ppf((1 + level) / 2, count - 1) * apart.std(ddof=1) / np.sqrt(count)
        if apart.mean() - half > 0 and apart.mean() > np.log(1.01):
            beaten.add(names[one])
        if apart.mean() + half < 0 and apart.mean() < -np.log(1.01):
            beaten.add(names[other])
    return [name for name in names if name not in beaten], dict(
        zip(names, logs.mean(axis=1), strict=True)
    )


def drawn(seed: int) -> tuple[np.ndarray, np.ndarray, str]:
    """Draw planted gains of two to five policies, of none, one and thirty per cent, and noise."""
    rng = np.random.default_rng([seed, 5])
    count = int(rng.integers(2, 6))
    truth = np.log(1 + rng.choice([0.0, 0.0, 0.05, 0.3], count))
    noise = rng.choice([0.005, 0.03, 0.1])
    logs = truth[:, None] + rng.normal(0, 0.5, 32) + rng.normal(0, noise, (count, 32))
    return truth, logs, NAMES[:count]


@pytest.mark.slow
def test_a_race_answers_as_all_draws_of_all_policies_do() -> None:
    """150 races: who leads alone leads after all draws, and whoever is truly best is left."""
    lost, otherwise, saved, decided = 0, 0, 0, 0
    for seed in range(150):
        truth, logs, names = drawn(seed)
        left = raced(logs, names)
        unbeaten, mean = enumerated(logs, names)
        best = [name for name, each in zip(names, truth, strict=True) if each == truth.min()]
        lost += not any(name in left for name in best)
        if len(left) == 1:
            decided += 1
            otherwise += left[0] not in unbeaten or mean[left[0]] > min(mean.values()) + 0.01
        if len(unbeaten) == 1:
            saved += left == unbeaten
            assert unbeaten[0] in left
    assert decided > 25  # of what is asked something is told
    assert saved > 25
    assert lost <= 2  # 1 % at most
    assert otherwise <= 2


@pytest.mark.slow
def test_a_race_of_simulations_answers_as_all_of_them_do() -> None:
    """The same resamples of a log, run to the end by all, by plain sweeps."""
    log = ap.generate_workload(jobs=60, jobs_per_hour=14.0, seed=2)
    policies = ["fcfs", "shortest_job_first", "max_min_fairness"]
    found = ap.recommend(policies, log, "v100=8", looks=[4, 8, 12], n_jobs=1)
    table = ap.sweep(
        policies, [log], "v100=8", seeds=range(12), resample="blocks", n_jobs=1
    ).table()
    logs = table.pivot_table(index="policy", columns="seed", values="mean_jct_s").map(np.log)
    means = logs.mean(axis=1)
    assert means.idxmin() in found.left
    for label, (better, look) in found.dropped.items():
        count = (4, 8, 12)[look - 1]
        assert np.asarray(logs.loc[label] - logs.loc[better])[:count].mean() > 0
        assert means[label] > means[better]


@pytest.mark.parametrize("seed", range(60))
def test_bisection_finds_what_trying_every_number_finds(seed: int) -> None:
    rng = np.random.default_rng([seed, 6])
    least = int(rng.integers(1, 9))
    falls = np.sort(rng.choice([0.0, 1.0, 2.0, 3.0, 10.0], 200))[::-1]
    wide = float(rng.choice([0.0, 0.3, 2.0]))
    waits = {size: (falls[size], falls[size] - wide, falls[size] + wide) for size in range(200)}
    asked = list[int]()

    def wait_s(machines: int) -> tuple[float, float, float]:
        asked.append(machines)
        return waits.get(machines, (0.0, 0.0, 0.0))

    limit_s = float(rng.choice([0.5, 1.0, 2.5, 9.0, 12.0]))
    found = _Bisection(wait_s, limit_s).sizes(least)
    expected = [
        next(size for size in range(least, 400) if waits.get(size, (0.0,) * 3)[end] <= limit_s)
        for end in (1, 0, 2)
    ]
    assert list(found) == expected
    assert len(asked) == len(set(asked)) <= 40


@pytest.mark.parametrize("seed", range(60))
def test_no_size_that_was_simulated_speaks_against_the_fewest(seed: int) -> None:
    """Ends of intervals that do not fall with the size: what is said to do too little did."""
    rng = np.random.default_rng([seed, 7])
    waits = np.sort(rng.uniform(0, 5, 64))[::-1]
    wide = rng.uniform(0, 2, 64)

    def wait_s(machines: int) -> tuple[float, float, float]:
        if machines >= 64:
            return 0.0, 0.0, 0.0
        return waits[machines], waits[machines] - wide[machines], waits[machines] + wide[machines]

    search = _Bisection(wait_s, float(rng.uniform(0.1, 5)))
    found = search.sizes(1)
    for end, size in zip((1, 0, 2), found, strict=True):
        assert search.known[size][end] <= search.limit_s
        assert all(x[end] > search.limit_s for n, x in search.known.items() if n < size)
