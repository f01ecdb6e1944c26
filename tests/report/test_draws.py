"""Reports of sweeps and of what-if, and who holds GPUs over time."""

from __future__ import annotations

import re
from html import unescape
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from tests.report.test_report import parsed

import apportion as ap
from apportion.errors import InputError
from apportion.report.style import panels_of
from apportion.report.tier_plots import gpus_held

if TYPE_CHECKING:
    from apportion.experiments import Sweep

pytest.importorskip("matplotlib")
JOBS: dict[str, Any] = {"jobs": 8, "jobs_per_hour": 9.0}
POLICIES = ["fifo", "max_min_fairness", "fcfs"]


@pytest.fixture(scope="module")
def swept() -> Sweep:
    given: dict[str, Any] = {"loads": [1, 2], "seeds": [0, 1, 2], "n_jobs": 1, "progress": False}
    return ap.sweep(POLICIES, [JOBS], "v100=2,k80=2", **given)


def rows_of(page: str, title: str) -> list[list[str]]:
    """Return the cells of the table below a heading."""
    table = page.split(title, 1)[1].split("</table>", 1)[0]
    rows = re.findall("<tr>(.*?)</tr>", table, re.DOTALL)
    return [[unescape(cell) for cell in re.findall("<td[^>]*>(.*?)</td>", row)] for row in rows][1:]


@pytest.mark.thorough
def test_the_report_of_a_sweep_has_its_paired_differences(swept: Sweep) -> None:
    page = swept.to_html(against="fcfs")
    assert parsed(page).open == []
    assert "http" not in page
    found = rows_of(page, "above fcfs (below 0: shorter)")
    expected = swept.differences("fcfs")
    expected = expected[expected["figure"] == "mean_jct_s"]
    assert [row[:2] for row in found] == [
        [policy, f"load {load:g}"]
        for load, policy in zip(expected["load"], expected["policy"], strict=True)
    ]
    numbers = expected[["difference", "low", "high"]].to_numpy() / 3600
    assert [row[2:5] for row in found] == [[f"{each:+,.2f}" for each in row] for row in numbers]
    runs = swept.table().pivot_table(index=["load", "seed"], columns="policy", values="mean_jct_s")
    by_hand = (runs["fifo"] - runs["fcfs"]).groupby("load").mean() / 3600
    assert [row[2] for row in found if row[0] == "fifo"] == [f"{each:+,.2f}" for each in by_hand]
    assert swept.to_html() == swept.to_html(against="fifo")
    with pytest.raises(InputError, match="policy that ran 'nobody'"):
        swept.to_html(against="nobody")


@pytest.mark.thorough
def test_the_report_of_changes_has_their_ratios() -> None:
    seeds = range(3)
    given: dict[str, Any] = {"seeds": seeds, "n_jobs": 1, "progress": False}
    answer = ap.what_if(["fifo"], JOBS, "v100=2,k80=2", add="v100=2", rates=[1.5], **given)
    page = answer.to_html(level=0.9)
    assert parsed(page).open == []
    table = answer.table(0.9)
    changed = table[(table["change"] != "today") | (table["rate"] != 1)]
    found = rows_of(page, "Beside today")
    assert [row[1:3] for row in found] == [
        ["today", "rate 1.5"],
        ["+2 v100", "rate 1"],
        ["+2 v100", "rate 1.5"],
    ]
    ends = changed[["mean_jct_s_ratio", "mean_jct_s_low", "mean_jct_s_high"]].to_numpy()
    assert [row[3:6] for row in found] == [[f"{each:.3f}" for each in row] for row in ends]
    assert "paired 90% intervals" in page


@pytest.mark.parametrize("seed", range(5))
def test_gpus_held_are_those_of_the_stays_at_any_time(seed: int) -> None:
    rng = np.random.default_rng(seed)
    start = rng.integers(0, 50, 20)
    devices = [list(range(count)) for count in rng.integers(0, 5, 20)]
    stays = {"start_s": start, "end_s": start + rng.integers(0, 30, 20), "devices": devices}
    schedule = pd.DataFrame(stays)
    edges = np.arange(0.0, 101.0, 10.0)
    by_second = np.zeros(100)  # stays begin and end at whole seconds
    for _, stay in schedule.iterrows():
        by_second[stay["start_s"] : stay["end_s"]] += len(stay["devices"])
    np.testing.assert_allclose(gpus_held(schedule, edges), by_second.reshape(10, 10).mean(axis=1))
    assert gpus_held(schedule.iloc[:0], edges).tolist() == [0.0] * 10


@pytest.mark.parametrize("count", range(1, 8))
def test_every_panel_has_its_numbers_and_no_other_is_seen(count: int) -> None:
    figure, panels = panels_of(count, 6.4, 2.0)
    for axes in panels:
        axes.plot([0.0, 4.0], [1.0, 2.0])
    figure.canvas.draw()
    assert len(panels) == count == sum(axes.get_visible() for axes in figure.axes)
    for axes in panels:
        assert any(label.get_visible() and label.get_text() for label in axes.get_xticklabels())


def test_a_picture_that_leaves_out_policies_says_so() -> None:
    run = ap.simulate("fifo", ap.generate_workload(jobs=3, seed=1), "v100=2")
    for kind, most in (("gantt", 3), ("gpus_held", 6)):
        for count in (most, most + 1):
            figure = ap.plot({f"policy {k}": run for k in range(count)}, kind)
            assert (f"first {most} of {count} policies" in figure.get_suptitle()) == (count > most)
