from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

import apportion as ap
from apportion.report.found import _fairest, findings
from apportion.report.tables import human_measures

QUEUES = ["fcfs", "easy", "minimum_completion_time"]


def compared(policies: list[str], jobs: int, **others: Any) -> ap.Comparison:
    workload = ap.generate_workload(jobs=jobs, seed=3, jobs_per_hour=8, **others)
    return ap.compare(policies, workload, "v100=4,p100=4,k80=4", n_jobs=1)


@pytest.fixture(scope="module")
def three() -> ap.Comparison:
    return compared(QUEUES, 80)


def test_three_sentences_name_best_and_worst_by_the_jobs_themselves(three: ap.Comparison) -> None:
    first, last, fair = findings(three)
    mean_h = {name: run.measured["jct_s"].mean() / 3600 for name, run in three.runs.items()}
    best, worst = min(mean_h, key=mean_h.__getitem__), max(mean_h, key=mean_h.__getitem__)
    assert first.startswith(f"{best} has the shortest mean completion time, {mean_h[best]:.4g} h")
    assert last.startswith(f"The longest is that of {worst}, {mean_h[worst]:.4g} h")
    ftf = {name: run.measured["ftf"].max() for name, run in three.runs.items()}
    assert f"{min(ftf.values()):.3g} times as long" in fair
    assert f"under {min(ftf, key=ftf.__getitem__)}," in fair


def test_an_interval_is_about_the_difference_and_says_whether_it_is_chance(
    three: ap.Comparison,
) -> None:
    first, last, _ = findings(three)
    best = first.split()[0]
    apart = three.differences(best).query("figure == 'mean_jct_s'").set_index("policy")
    for sentence in (first, last):
        found = re.search(r"([\d.]+) h \[(-?[\d.]+), ([\d.]+)\]", sentence)
        if found is not None:
            middle, low, high = map(float, found.groups())
            assert low < middle < high
            assert ("chance explains" in sentence) == (low <= 0)
    near = apart.index[apart["low"] <= 0]
    assert ("chance cannot tell it" in first) == (len(near) > 0)
    assert all(name in first for name in near)


def test_one_policy_has_found_nothing() -> None:
    assert findings(compared(["fcfs"], 5)) == []


def test_few_jobs_have_no_interval_and_equals_are_told_so() -> None:
    few = findings(compared(["fcfs", "easy"], 3))
    assert "too few jobs for intervals" in few[0]
    assert not any("nan" in sentence for sentence in few)


@pytest.mark.thorough
@pytest.mark.usefixtures("without_plots")
def test_the_report_opens_with_what_was_found(three: ap.Comparison) -> None:
    page = three.to_html()
    titles = re.findall(r"<h2>(.*?)</h2>", page)
    assert titles[:2] == ["What was found", "Summary"]
    assert np.all([sentence.split(",")[0] in page for sentence in findings(three)])


def test_a_batch_has_no_rate_and_one_preemption_is_one() -> None:
    rows = human_measures(ap.generate_rack_workload(jobs=4, arrivals="batch").describe())
    assert ("arrival rate", "-", "") in rows
    summary = pd.DataFrame({"ftf_max": [1.0, 2.0], "preemptions": [1, 3]}, index=["a", "b"])
    assert "under a, with 1 preemption, and 2 times under b" in _fairest(summary)
