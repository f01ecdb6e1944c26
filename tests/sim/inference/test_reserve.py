from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.seeds import each_seed

import apportion as ap
from apportion.cli import main
from apportion.elastic import Reserve, most_at_once
from apportion.errors import InputError


def day(seed: int, count: int = 120, length_s: float = 2400.0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "arrival_s": np.sort(rng.uniform(0, length_s, count)),
            "service": rng.choice(["a", "b"], count),
            "duration_s": rng.integers(1, 60, count).astype(float),
        }
    ).assign(slo_s=lambda made: made["duration_s"] + 40)


@pytest.mark.parametrize("seed", each_seed(3, 20))
def test_most_at_once_as_counted_at_every_arrival(seed: int) -> None:
    asked = day(seed)
    begin, end = asked["arrival_s"], asked["arrival_s"] + asked["duration_s"]
    found = most_at_once(asked, 300.0)
    assert 300.0 * (len(found) - 1) <= end.max() < 300.0 * len(found)
    for window, most in enumerate(found):
        first = 300.0 * window
        times = [first, *begin[(begin >= first) & (begin < first + 300.0)]]
        assert most == max(int(((begin <= now) & (now < end)).sum()) for now in times)


@pytest.mark.parametrize("seed", each_seed(3, 20))
def test_the_reserve_is_the_smallest_number_with_the_probability(seed: int) -> None:
    rng = np.random.default_rng(seed)
    demand = rng.integers(0, 9, (4, int(rng.integers(1, 12))))
    epsilon = float(rng.choice([0.0, 0.05, 0.2, 0.5]))
    reserve = Reserve(demand, 60.0, epsilon)
    for window in range(4):
        scenarios = demand[window]
        enough = [g for g in range(9) if (scenarios <= g).mean() >= 1 - epsilon - 1e-12]
        assert reserve.at(60.0 * window + 1) == enough[0] == reserve.at(240.0 + 60.0 * window)


@pytest.mark.parametrize("seed", each_seed(2, 8))
def test_at_each_decision_training_leaves_the_reserve(seed: int) -> None:
    asked = day(seed)
    jobs = ap.generate_elastic_workload(6, hours=0.3, seed=seed)
    reserve = Reserve.of_days([day(seed + 100 + k) for k in range(5)], window_s=300.0, day_s=2400.0)
    serving = ap.Serving(asked, reserve=reserve, cold_start_s=3.0, yield_seconds=0.0)
    run = ap.simulate("deepboot", jobs, "v100=16", serving=serving)
    states = run.tables["gpu_states"]
    loans = states[states["state"] == "loaned"]
    ends = set(zip(loans["gpu"], loans["to_s"], strict=True))
    new = {
        now_s
        for gpu, now_s in zip(loans["gpu"], loans["from_s"], strict=True)
        if (gpu, now_s) not in ends
    }
    assert len(new) > 2
    for now_s in new:  # GPUs are lent anew at decisions only
        lent = int(((loans["from_s"] <= now_s) & (now_s < loans["to_s"])).sum())
        assert 16 - lent >= min(reserve.at(now_s), 16)


@pytest.mark.thorough
def test_no_reserve_is_a_reserve_of_nothing_and_all_is_no_training_meanwhile() -> None:
    asked, jobs = day(1), ap.generate_elastic_workload(4, hours=0.2, seed=1)
    runs = [
        ap.simulate("deepboot", jobs, "v100=8", serving=ap.Serving(asked, reserve=reserve))
        for reserve in (None, Reserve(np.zeros((1, 1))))
    ]
    pd.testing.assert_frame_equal(runs[0].jobs, runs[1].jobs)
    pd.testing.assert_frame_equal(runs[0].tables["requests"], runs[1].tables["requests"])
    late = Reserve(np.array([[8.0], [0.0]]), 1200.0)  # nobody trains before
    run = ap.simulate("deepboot", jobs, "v100=8", serving=ap.Serving(asked, reserve=late))
    assert run.schedule["start_s"].min() >= 1200.0
    assert math.isfinite(run.jobs["completion_s"].max())


def test_a_day_is_as_long_as_it_is_whenever_its_requests_end() -> None:
    late = pd.DataFrame({"arrival_s": [86_395.0], "service": ["a"], "duration_s": [10.0]})
    reserve = Reserve.of_days([late, late.iloc[:0]], epsilon=0.0)
    assert reserve.gpus.size == 144
    assert np.flatnonzero(reserve.gpus).tolist() == [0, 143]  # its last 5 s are of the next day
    assert reserve.at(86_400.0 * 3 - 1) == reserve.at(86_400.0 * 3) == 1
    early = late.assign(arrival_s=5.0)
    assert Reserve.of_days([early]).gpus.size == 144
    with pytest.raises(InputError, match=r"1\.6 windows of 54000 s"):
        Reserve.of_days([late], window_s=54_000.0)
    with pytest.raises(InputError, match="arrives at 86395 s; a day is 3600 s"):
        Reserve.of_days([late], day_s=3600.0)


@pytest.mark.parametrize("seed", each_seed(3, 20))
def test_a_table_of_several_days_is_cut_at_their_ends(seed: int) -> None:
    days = [day(seed + k) for k in range(4)]
    days[2] = days[2].iloc[:0]  # nobody asks on that day
    days[3].loc[0, "arrival_s"] = 2399.0
    whole = pd.concat(
        [each.assign(arrival_s=each["arrival_s"] + 2400.0 * k) for k, each in enumerate(days)]
    )
    whole = whole.sample(frac=1.0, random_state=seed).reset_index(drop=True)
    how: dict[str, Any] = {"window_s": 300.0, "day_s": 2400.0, "epsilon": 0.3}
    found, listed = Reserve.of_days(whole, **how), Reserve.of_days(days, **how)
    np.testing.assert_array_equal(found.demand, listed.demand)
    begun = whole[whole["arrival_s"] < 3 * 2400.0 + 1000.0]  # the last day is not over
    np.testing.assert_array_equal(
        Reserve.of_days(begun, **how).demand, Reserve.of_days(days[:3], **how).demand
    )
    assert Reserve.of_days(begun[begun["arrival_s"] < 1000.0], **how).gpus.size == 8


@pytest.mark.thorough
def test_a_file_of_requests_takes_settings_in_brackets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    asked, jobs = day(1), ap.generate_elastic_workload(4, hours=0.2, seed=1)
    asked.to_csv("asked.csv", index=False)
    pd.concat([day(2), day(3).assign(arrival_s=lambda d: d["arrival_s"] + 2400.0)]).to_csv(
        "past.csv", index=False
    )
    jobs.save("jobs.csv")
    of_past = 'reserve="past.csv(day_s=2400, window_s=300, epsilon=0.1)"'
    words = f"asked.csv(services_per_gpu=2, lending=yes, cold_start_s=2.5, {of_past})"
    reserve = Reserve.of_days([day(2), day(3)], day_s=2400.0, window_s=300.0, epsilon=0.1)
    beside = ap.Serving(asked, services_per_gpu=2, cold_start_s=2.5, reserve=reserve)
    expected = ap.simulate("deepboot", jobs, "v100=8", serving=beside)
    found = ap.simulate("deepboot", jobs, "v100=8", serving=words)
    pd.testing.assert_frame_equal(found.jobs, expected.jobs)
    some = ap.Serving.of("asked.csv(gpus=6, lending=no, cold_start_s='a=2,b=3')")
    assert (some.gpus, some.lending, some.cold_starts) == (6, False, {"a": 2.0, "b": 3.0})
    line = [
        "--workload",
        "jobs.csv",
        "--cluster",
        "v100=8",
        "--policies",
        "deepboot",
        "--jobs",
        "1",
    ]
    shown = ["compare", *line, "--out", "one", "--mechanism", f"configurations(serving='{words}')"]
    assert main(shown) == 0
    again = ["compare", "--config", "one/run.toml", "--jobs", "1", "--out", "two"]
    assert main(again) == 0
    told = pd.read_csv("one/summary.csv").set_index("policy").loc["deepboot"]
    mean_s: Any = told["mean_jct_s"]
    assert mean_s == pytest.approx(expected.summary()["mean_jct_s"], rel=1e-12)
    assert Path("one/jobs.csv").read_bytes() == Path("two/jobs.csv").read_bytes()
    for wrong, message in (
        ("asked.csv(gpu=6)", "Did you mean 'gpus'"),
        ("asked.csv(lending=maybe)", "lending is 'maybe'"),
        ("asked.csv(reserve=no.csv)", "no.csv"),
        ("asked.csv(gpus)", "cannot be read from 'gpus' on"),
    ):
        with pytest.raises(InputError, match=message):
            ap.simulate("deepboot", jobs, "v100=8", serving=wrong)


def test_reserves_that_are_none() -> None:
    with pytest.raises(InputError, match="a row for each window"):
        Reserve(np.zeros(3))
    with pytest.raises(InputError, match="epsilon is 1"):
        Reserve(np.zeros((1, 1)), epsilon=1.0)
    with pytest.raises(InputError, match="at least one day"):
        Reserve.of_days([])
    with pytest.raises(InputError, match="must be a Reserve"):
        ap.Serving(day(0), reserve=3)
    some = ap.Serving(day(0), gpus=4, reserve=Reserve(np.ones((1, 1))))
    with pytest.raises(InputError, match="keeps some of the GPUs of one type"):
        ap.simulate("deepboot", ap.generate_elastic_workload(2), "v100=8", serving=some)
    with pytest.raises(InputError, match="days is 3; it must be a table of requests, or a list"):
        Reserve.of_days(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    for wrong in ([["many"]], [[1.0], [1.0, 2.0]], [[math.inf]]):
        with pytest.raises(InputError, match="a row for each window"):
            Reserve(wrong)  # pyright: ignore[reportArgumentType]
