"""Marks of the best against intervals of scipy's own, and batches against plain means."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import apportion as ap
from apportion.errors import InputError
from apportion.statistics import BATCHES, batch_figures, differences_of, growing, marks_of


def expected_marks(values: np.ndarray) -> list[str]:
    """Marks by scipy's paired interval of each policy and the best, all at 5 % together."""
    best = int(values.mean(axis=1).argmin())
    near = []
    for row in range(len(values)):
        apart = values[row] - values[best]
        if row == best or np.ptp(apart) == 0:
            near.append(row == best or apart[0] == 0)
            continue
        level = 1 - 0.05 / (len(values) - 1)
        low, high = stats.ttest_1samp(apart, 0).confidence_interval(level)
        near.append(low <= 0 <= high)
    if sum(near) == 1:
        return ["*" if each else "" for each in near]
    return ["~" if each else "" for each in near]


@pytest.mark.parametrize("seed", range(40))
def test_marks_are_those_of_paired_intervals(seed: int) -> None:
    rng = np.random.default_rng(seed)
    policies, count = int(rng.integers(2, 7)), int(rng.integers(2, 12))
    values = rng.lognormal(size=count) + rng.normal(scale=0.2, size=(policies, count))
    values += rng.choice([0.0, 0.5], size=(policies, 1))
    expected = expected_marks(values)
    assert marks_of(values) == expected
    assert marks_of(-values, low=False) == expected
    order = rng.permutation(policies)
    assert marks_of(values[order]) == [expected[row] for row in order]
    assert marks_of(values[:, rng.permutation(count)]) == expected


def test_a_clear_winner_has_a_star_and_equals_have_none() -> None:
    drawn = np.random.default_rng(0).normal(size=10)
    assert marks_of(np.array([drawn, drawn + 1, drawn + 2 + drawn / 10])) == ["*", "", ""]
    assert marks_of(np.array([drawn, drawn, drawn + 1])) == ["~", "~", ""]
    assert marks_of(np.array([drawn, drawn])) == ["", ""]
    assert marks_of(np.array([drawn])) == [""]
    assert marks_of(np.array([drawn[:1], drawn[:1] + 1])) == ["", ""]
    assert marks_of(np.full((3, 10), [[1.0], [2.0], [3.0]])) == ["", "", ""]
    assert marks_of(np.array([drawn, np.where(drawn > 0, np.nan, 1)])) == ["", ""]
    assert marks_of(np.empty((2, 0))) == ["", ""]


def jobs_table(rng: np.random.Generator, jobs: int) -> pd.DataFrame:
    columns = {"arrival_s": np.sort(rng.uniform(size=jobs)), "jct_s": rng.lognormal(size=jobs)}
    names = [f"job {each}" for each in range(jobs)]
    return pd.DataFrame({**columns, "preemptions": rng.integers(5, size=jobs)}, index=names)


@pytest.mark.parametrize("jobs", [20, 21, 57, 200])
def test_batches_are_of_consecutive_jobs_and_keep_the_mean(jobs: int) -> None:
    rng = np.random.default_rng(jobs)
    first = jobs_table(rng, jobs)
    second = first.assign(jct_s=rng.lognormal(size=jobs)).sample(frac=1, random_state=1)
    found = batch_figures({"a": first, "b": second})
    assert found.keys() == {"mean_jct_s", "preemptions"}
    figures = found["mean_jct_s"]
    assert figures.shape == (2, BATCHES)
    assert figures.mean(axis=1) == pytest.approx([first["jct_s"].mean(), second["jct_s"].mean()])
    sizes = np.diff(np.linspace(0, jobs, BATCHES + 1).round())
    assert sizes.max() - sizes.min() <= 1
    sums = figures * jobs / BATCHES
    head = first.index[: -(-jobs // BATCHES)]
    assert sums[:, 0] == pytest.approx(
        [first.loc[head, "jct_s"].sum(), second.loc[head, "jct_s"].sum()]
    )


def test_few_jobs_have_no_batches() -> None:
    assert batch_figures({"a": jobs_table(np.random.default_rng(0), 19)}) == {}
    assert batch_figures({}) == {}


@pytest.mark.parametrize("seed", range(20))
def test_differences_are_scipys_paired_intervals(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values, level = rng.lognormal(size=(3, int(rng.integers(2, 9)))), float(rng.uniform(0.5, 0.99))
    found = differences_of({"jct": values, "cost": -values}, ["a", "b", "c"], "b", level)
    assert found["figure"].tolist() == ["jct"] * 2 + ["cost"] * 2
    assert found["policy"].tolist() == ["a", "c"] * 2
    for row, place in zip(found.iloc[:2].itertuples(), (0, 2), strict=True):
        apart = values[place] - values[1]
        interval = stats.ttest_rel(values[place], values[1]).confidence_interval(level)
        assert (row.difference, row.low, row.high) == pytest.approx((apart.mean(), *interval))
        assert row.less == (apart < 0).mean()
        assert row.replicates == values.shape[1]


def test_differences_without_an_interval_and_without_sense() -> None:
    found = differences_of({"jct": np.array([[1.0], [3.0]])}, ["a", "b"], "a")
    assert found["difference"].tolist() == [2.0]
    assert found[["low", "high"]].isna().to_numpy().all()
    with pytest.raises(InputError, match="Unknown policy that ran 'c'"):
        differences_of({}, ["a", "b"], "c")
    for level in (0.0, 1.0, -1.0):
        with pytest.raises(InputError, match="level"):
            differences_of({}, ["a"], "a", level)


@pytest.mark.thorough
def test_comparisons_and_sweeps_tell_their_differences() -> None:
    jobs, policies = ap.generate_workload(jobs=20, jobs_per_hour=6.0, seed=1), ["fifo", "fcfs"]
    compared = ap.compare(policies, jobs, "v100=2,k80=2", n_jobs=1)
    means = compared.summary().set_index("policy")["mean_jct_s"]
    found = compared.differences("fcfs")
    (apart,) = found.loc[found["figure"] == "mean_jct_s", "difference"]
    assert apart == pytest.approx(means["fifo"] - means["fcfs"])
    what: Any = {"seeds": [0, 1, 2], "resample": True, "loads": [1.0, 2.0], "n_jobs": 1}
    swept = ap.sweep(policies, jobs, "v100=2,k80=2", **what)
    table = swept.differences("fcfs")
    assert list(table.columns[:4]) == ["workload", "load", "figure", "policy"]
    makespans = table[(table["figure"] == "makespan_s") & (table["load"] == 2)]
    runs = swept.table()[swept.table()["load"] == 2].pivot(
        index="seed", columns="policy", values="makespan_s"
    )
    interval = stats.ttest_rel(runs["fifo"], runs["fcfs"]).confidence_interval()
    assert makespans[["low", "high"]].to_numpy()[0] == pytest.approx(interval)
    assert makespans["replicates"].tolist() == [3]


@pytest.mark.parametrize("seed", range(20))
def test_waits_grow_where_a_regression_says_so(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rise = [0.0, 0.2, 1.0, 5.0][seed % 4]
    tables = {}
    for policy in ("a", "b"):
        waits_s = rng.exponential(size=200) + rise * np.linspace(0, 1, 200)
        tables[policy] = jobs_table(rng, 200).assign(queueing_s=waits_s)
    tables["c"] = tables["a"].assign(queueing_s=0.0)
    expected = []
    for policy in ("a", "b"):
        means = [part.mean() for part in np.split(tables[policy]["queueing_s"].to_numpy(), 10)]
        line = stats.linregress(np.arange(10), means, alternative="greater")
        expected += [policy] * bool(line.pvalue < 0.01)
    assert growing(tables) == expected
