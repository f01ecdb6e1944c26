from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
import pytest

import apportion as ap
from apportion.sim.network.samples import SampledTraffic, profiles_from_samples
from apportion.sim.phases.sampled_sharing import pairs_that_share, table_of_pairs

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray


class Drawn(NamedTuple):
    """A job of which everything is known."""

    period_s: float
    start_s: float
    duration_s: float
    gbps: float


def sampled(jobs: dict[str, Drawn], times_s: NDArray[np.floating], step_s: float) -> pd.DataFrame:
    """What counters tell, from the definition: gigabits until a time, less those a step before."""

    def sent(job: Drawn, until_s: NDArray[np.floating]) -> NDArray[np.floating]:
        turns, since_s = np.divmod(until_s - job.start_s, job.period_s)
        return job.gbps * (turns * job.duration_s + np.minimum(since_s, job.duration_s))

    rates = {
        name: np.maximum(0, (sent(job, times_s) - sent(job, times_s - step_s)) / step_s)
        for name, job in jobs.items()
    }
    return pd.DataFrame({"time": times_s, **rates})


def held(seed: int) -> tuple[bool, bool, bool, bool]:
    """Draw a job and samples; tell whether period, start, length and Gb/s are within doubt."""
    rng = np.random.default_rng(seed)
    period_s = rng.uniform(0.1, 0.8)
    job = Drawn(
        period_s, rng.uniform(0, period_s), rng.uniform(0.15, 0.8) * period_s, rng.uniform(10, 90)
    )
    step_s = period_s / rng.uniform(5, 30)
    table = sampled(
        {"a": job}, np.arange(1, rng.integers(20, 120) * period_s / step_s) * step_s, step_s
    )
    table["a"] *= np.maximum(0, 1 + rng.choice([0, 0.02, 0.1]) * rng.normal(size=len(table)))
    table = table[rng.random(len(table)) >= rng.choice([0, 0.05, 0.2])]
    found = profiles_from_samples(table)
    profile, doubt = found.profiles["a"], found.doubts["a"]
    phase, off = profile.phases[0], doubt.phases[0]
    start_s = (job.start_s - found.until_s) % period_s
    late_s = (phase.start_s - start_s + period_s / 2) % period_s - period_s / 2
    return (
        abs(profile.period_s - period_s) <= doubt.period_s and len(profile.phases) == 1,
        abs(late_s) <= off.start_s,
        abs(phase.duration_s - job.duration_s) <= off.duration_s,
        abs(phase.gbps - job.gbps) <= off.gbps,
    )


@pytest.mark.thorough
def test_known_profiles_are_recovered_within_their_doubt() -> None:
    assert np.mean([held(seed) for seed in range(5)], axis=0).min() >= 0.8


@pytest.mark.slow
def test_19_of_20_known_profiles_are_recovered_within_their_doubt() -> None:
    assert np.mean([held(seed) for seed in range(100, 120)], axis=0).min() >= 0.95


VGG = Drawn(0.25, 0.03, 0.1, 48.0)
BERT = Drawn(0.2525, 0.1, 0.11, 45.0)
TIMES = np.arange(1, 1000) * 0.02


def table() -> pd.DataFrame:
    return sampled({"vgg": VGG, "bert": BERT}, TIMES, 0.02)


@pytest.mark.thorough
def test_several_phases_and_a_level_below_them() -> None:
    first, second = Drawn(0.5, 0.1, 0.12, 40.0), Drawn(0.5, 0.3, 0.08, 20.0)
    parts = sampled({"one": first, "two": second}, TIMES, 0.02)
    both = pd.DataFrame({"time": TIMES, "job": parts["one"] + parts["two"] + 5.0})
    found = profiles_from_samples(both.rename(columns={"job": "a"})).profiles["a"]
    assert found.period_s == pytest.approx(0.5, rel=1e-5)
    assert found.gigabits == pytest.approx(4.8 + 1.6 + 2.5, rel=1e-3)
    silent = profiles_from_samples(both.rename(columns={"job": "a"}), silent=0.2).profiles["a"]
    assert sorted(each.gbps for each in silent.phases) == pytest.approx([25, 45], rel=1e-3)


def varying(seed: int, jitter: float) -> tuple[bool, bool, bool, bool]:
    """As `held`, where every iteration lasts as long as it happens to."""
    rng = np.random.default_rng([seed, round(jitter * 1e5)])
    period_s, duty, gbps = rng.uniform(0.1, 0.8), rng.uniform(0.15, 0.8), rng.uniform(10, 90)
    step_s, count = period_s / rng.uniform(5, 30), int(rng.integers(60, 240)) + 4
    sends_s = duty * period_s
    lengths_s = np.maximum(period_s * (1 + jitter * rng.normal(size=count)), 1.0001 * sends_s)
    starts_s = np.concatenate([[0.0], np.cumsum(lengths_s)])[:-1] - rng.uniform(0, period_s)
    edges_s = np.column_stack([starts_s, starts_s + sends_s]).ravel()
    sent = gbps * sends_s * np.column_stack([np.arange(count), np.arange(count) + 1]).ravel()
    times_s = np.arange(1, int(starts_s[-2] / step_s)) * step_s
    rates = np.diff(np.interp(np.concatenate([[0.0], times_s]), edges_s, sent)) / step_s
    found = profiles_from_samples(pd.DataFrame({"time": times_s, "a": rates}))
    profile, doubt = found.profiles["a"], found.doubts["a"]
    phase, off = profile.phases[0], doubt.phases[0]
    last_s = starts_s[np.searchsorted(starts_s, found.until_s) - 1]
    late_s = (phase.start_s + found.until_s - last_s + period_s / 2) % period_s - period_s / 2
    return (
        abs(profile.period_s - period_s) <= doubt.period_s and len(profile.phases) == 1,
        abs(late_s) <= off.start_s,
        abs(phase.duration_s - sends_s) <= off.duration_s,
        abs(phase.gbps - gbps) <= off.gbps,
    )


@pytest.mark.parametrize(
    "jitter", [0.002, 0.02, *(pytest.param(each, marks=pytest.mark.slow) for each in (0.005, 0.01))]
)
@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(2), marks=pytest.mark.thorough),
        pytest.param(range(20), marks=pytest.mark.slow),
    ],
    ids=["two", "twenty"],
)
def test_iterations_that_vary_are_within_doubt(jitter: float, seeds: range) -> None:
    within = np.mean([varying(seed, jitter) for seed in seeds], axis=0)
    assert within.min() >= 0.9, within


@pytest.mark.thorough
def test_how_much_iterations_vary_is_told() -> None:
    rng = np.random.default_rng(1)
    lengths_s = 0.25 * (1 + 0.01 * rng.normal(size=220))
    starts_s = np.concatenate([[0.0], np.cumsum(lengths_s)])[:-1]
    edges_s = np.column_stack([starts_s, starts_s + 0.1]).ravel()
    sent = 4.0 * np.column_stack([np.arange(220), np.arange(220) + 1]).ravel()
    times_s = np.arange(1, int(starts_s[-2] / 0.02)) * 0.02
    rates = np.diff(np.interp(np.concatenate([[0.0], times_s]), edges_s, sent)) / 0.02
    doubt = profiles_from_samples(pd.DataFrame({"time": times_s, "a": rates})).doubts["a"]
    assert doubt.jitter_s == pytest.approx(0.0025, rel=0.4)
    assert doubt.period_s > 1e-4  # though samples alone would tell it far better


@pytest.mark.thorough
def test_long_tables_dates_and_order_change_nothing(tmp_path: Path) -> None:
    wide = table()
    found = profiles_from_samples(wide)
    long = wide.melt("time", var_name="job", value_name="gbps").sample(frac=1.0, random_state=0)
    assert (
        profiles_from_samples(long)
        .table.sort_values(["job", "phase"])
        .reset_index(drop=True)
        .equals(found.table.sort_values(["job", "phase"]).reset_index(drop=True))
    )
    dates = wide.assign(time=pd.Timestamp("2026-01-31T12:00") + pd.to_timedelta(wide["time"], "s"))
    file = tmp_path / "traffic.csv"
    dates.to_csv(file, index=False)
    read = profiles_from_samples(file)
    for job, profile in found.profiles.items():
        assert read.profiles[job].period_s == pytest.approx(profile.period_s, rel=1e-6)
        assert read.profiles[job].phases[0] == pytest.approx(profile.phases[0], rel=1e-4)


@pytest.mark.thorough
def test_what_does_not_repeat_is_told() -> None:
    rng = np.random.default_rng(0)
    odd = table().assign(idle=0.0, noise=rng.random(len(TIMES)))
    odd["short"] = np.where(np.arange(len(TIMES)) < 9, 3.0, np.nan)
    odd["empty"] = np.nan
    found = profiles_from_samples(odd)
    assert set(found.profiles) == {"vgg", "bert"}
    assert set(found.unexplained) == {"idle", "noise", "short", "empty"}
    assert "always sends 0" in found.unexplained["idle"]
    assert "9 samples" in found.unexplained["short"]


@pytest.mark.thorough
def test_a_counter_that_jumps_is_left_out() -> None:
    jumped = table()
    jumped.loc[500, "vgg"] = 1e9
    found = profiles_from_samples(jumped).profiles["vgg"]
    assert found.period_s == pytest.approx(0.25, rel=1e-5)
    assert found.peak_gbps == pytest.approx(48, rel=1e-3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Cannot read the samples"),
        ("time\n1\n", "no column of a job"),
        ("t,a\n1,2\n", "no column 'time'.*each job"),
        ("time,a,a\n1,2,3\n", None),
        ("time,a\n1,2\nx,3\n", "line 3: the time is 'x'"),
        ("time,a\n1,2\n2,-3\n", "line 3: 'a' is '-3'"),
        ("time,a\n1,2\n2,many\n", "line 3: 'a' is 'many'"),
        ("time,a\n1,2\n1,3\n", "two samples at 1 s"),
        ("time,a\ninf,2\n", "not finite"),
        ("time,job\n1,a\n", "needs a column 'time'"),
        ("time,job,gbps,more\n1,a,2,3\n", "needs a column 'time'"),
        ("time,a\n1,2,3,4\n1,2\n", "Cannot read|two samples|time is"),
    ],
)
def test_odd_files_are_refused(tmp_path: Path, text: str, message: str | None) -> None:
    file = tmp_path / "traffic.csv"
    file.write_text(text)
    if message is None:
        assert profiles_from_samples(file).profiles == {}
        return
    with pytest.raises(ap.InputError, match=message):
        profiles_from_samples(file)


@pytest.mark.thorough
def test_two_jobs_that_fit_share_a_link() -> None:
    found = profiles_from_samples(table())
    (pair,) = pairs_that_share(found, 50.0)
    assert pair.may_share
    assert pair.random > 1.08
    assert all(more > 0 for more in pair.more_iterations.values())
    # Unpaced the jobs drift by 2.5 ms in an iteration: .0425 s of room, an iteration of .2525 s.
    assert pair.useless_after_s == pytest.approx(pair.useless_after_s // 0.2525 * 0.2525, abs=0.26)
    assert 0 < pair.adjust_every_s < pair.useless_after_s < 60
    assert table_of_pairs([pair])["may_share"].tolist() == [True]
    (wide,) = pairs_that_share(found, 100.0)
    assert wide.random == wide.shifted == 1.0
    with pytest.raises(ap.InputError, match="SampledTraffic"):
        pairs_that_share(table(), 50.0)  # type: ignore[arg-type]


@pytest.mark.thorough
def test_equal_periods_drift_by_their_doubt_alone() -> None:
    jobs = {"a": VGG, "b": VGG._replace(start_s=0.05)}
    noisy = sampled(jobs, TIMES, 0.02)
    rng = np.random.default_rng(0)
    for job in jobs:
        noisy[job] *= np.maximum(0, 1 + 0.05 * rng.normal(size=len(noisy)))
    found = profiles_from_samples(noisy)
    (pair,) = pairs_that_share(found, 50.0)
    assert pair.may_share
    assert pair.useless_after_s > 600
    assert isinstance(found, SampledTraffic)
