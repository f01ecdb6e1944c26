"""What a start costs where nobody says, and how comparisons show whether it decides."""

from typing import Any

import pandas as pd
import pytest

import apportion as ap
from apportion.mechanisms.start_costs import measured_start_s, multiplied

POLICIES = ["max_min_fairness", "easy"]
CLUSTER = "v100=4,k80=4"


def some_jobs(jobs: int = 24) -> ap.Workload:
    return ap.generate_workload(jobs=jobs, jobs_per_hour=6.0, seed=2)


@pytest.mark.parametrize(
    ("job_type", "seconds"),
    [
        ("bert", 103.0),
        ("BERT (batch size 12)", 103.0),
        ("ResNet-50 (batch size 64)", 35.0),
        ("ResNet-18 (batch size 16)", 24.0),
        ("ResNet-1", 30.0),
        ("Recommendation (batch size 512)", 25.0),
        ("unheard of", 30.0),
        ("", 30.0),
    ],
)
def test_models_that_were_measured_cost_what_they_did(job_type: str, seconds: float) -> None:
    assert measured_start_s(job_type) == seconds


def test_multiples_by_type() -> None:
    types = ["bert", "x", "bert"]
    assert multiplied("measured", 5, types) == {"bert": 515.0, "x": 150.0}
    assert multiplied({"bert": 60.0, "others": 20.0}, 2, types) == {"bert": 120.0, "others": 40.0}
    assert multiplied(60, 0.5, types) == {"others": 30.0}


@pytest.mark.thorough
def test_a_run_pays_what_was_measured_by_type() -> None:
    jobs = some_jobs()
    by_type = {name: measured_start_s(name) for name in jobs.jobs["job_type"]}
    for mechanism in ("rounds", "queue", "leases"):
        label = "fcfs" if mechanism == "queue" else "max_min_fairness"
        told: dict[str, Any] = {"mechanism": mechanism}
        named, spelled, free = (
            ap.simulate(label, jobs, CLUSTER, preemption_overhead_seconds=each, **told).jobs
            for each in ("measured", by_type, 0.0)
        )
        pd.testing.assert_frame_equal(named, spelled, check_exact=True)
        assert not named["completion_s"].equals(free["completion_s"])


@pytest.mark.parametrize("policies", [["fifo"], ["fcfs"], ["fifo", "fcfs"]])
def test_comparisons_and_sweeps_charge_it_where_nobody_says(policies: list[str]) -> None:
    what: Any = (policies, some_jobs(), CLUSTER)
    told = ap.compare(*what, n_jobs=1, preemption_overhead_seconds="measured")
    pd.testing.assert_frame_equal(ap.compare(*what, n_jobs=1).jobs(), told.jobs())
    free = ap.compare(*what, n_jobs=1, preemption_overhead_seconds=0.0)
    assert not free.jobs()["jct_s"].equals(told.jobs()["jct_s"])
    swept = ap.sweep(*what, n_jobs=1).table()
    assert swept["mean_jct_s"].tolist() == told.summary()["mean_jct_s"].tolist()


COSTLY = ap.OfferScheduler("costly", overhead_s=7.0)
"""One that says itself what a start costs."""


@pytest.mark.parametrize(
    ("policies", "told"),
    [
        (["fifo"], {"mechanism": "exact"}),
        (["fifo"], {"mechanism": ap.Rounds()}),
        (["fifo"], {"round_seconds": 60.0}),
        (["fifo"], {"preemption_overhead_seconds": {"others": 0.0}}),
        (["dally"], {"lease_seconds": 100.0}),
        ([COSTLY], {}),
    ],
)
def test_others_say_what_it_costs_or_have_no_room_for_it(policies: Any, told: Any) -> None:
    jobs = some_jobs(4)
    compared = ap.compare(policies, jobs, CLUSTER, n_jobs=1, **told)
    assert compared.settings.get("preemption_overhead_seconds") in (None, 0.0, {"others": 0.0})
    usual = ap.compare(policies, jobs, CLUSTER, n_jobs=1, start_costs="usual", **told)
    assert usual.start_costs() is None
    with pytest.raises(ap.InputError, match="does nothing: a start costs"):
        ap.compare(policies, jobs, CLUSTER, n_jobs=1, start_costs=[0, 5], **told)


@pytest.mark.thorough
def test_other_costs_stand_beside_and_are_resumed(tmp_path: Any) -> None:
    jobs = some_jobs(12)
    what: Any = {"n_jobs": 1, "start_costs": [0, 1, 5]}
    compared = ap.compare(POLICIES, jobs, CLUSTER, out=tmp_path, **what)
    assert list(compared.at_other_costs) == [0, 5]
    for times, runs in compared.at_other_costs.items():
        seconds = {name: times * measured_start_s(name) for name in jobs.jobs["job_type"]}
        told: Any = {"n_jobs": 1, "preemption_overhead_seconds": seconds}
        alone = ap.compare(POLICIES, jobs, CLUSTER, **told)
        for label in POLICIES:
            pd.testing.assert_frame_equal(runs[label].jobs, alone[label].jobs, check_exact=True)
    table = compared.start_costs()
    assert table is not None
    assert table.header == ("policy", "x 0", "x 1", "x 5")
    mean_h = compared["easy"].jobs["jct_s"].mean() / 3600
    assert table.cells[1][2] == f"{mean_h:.2f}"
    saved = pd.read_csv(tmp_path / "start_costs.csv")
    assert saved["start_costs"].tolist() == [0, 0, 1, 1, 5, 5]
    assert saved.loc[3, "mean_jct_s"] == pytest.approx(mean_h * 3600, rel=1e-12)
    assert "What starts cost" in (tmp_path / "report.html").read_text()
    two = ap.compare(POLICIES, jobs, CLUSTER, n_jobs=2, start_costs=[0, 5])
    assert str(two.start_costs()) == str(table)
    assert ap.compare(POLICIES, jobs, CLUSTER, n_jobs=1).start_costs() is None


def test_a_multiple_that_no_round_has_room_for_is_refused_if_somebody_asked() -> None:
    what: Any = {"n_jobs": 1, "preemption_overhead_seconds": 100.0}
    with pytest.raises(ap.InputError, match=r"start_costs holds 5, .* lease of 360 s"):
        ap.compare(["fifo"], some_jobs(4), CLUSTER, start_costs=[2, 5], **what)
    compared = ap.compare(["fifo"], some_jobs(4), CLUSTER, start_costs="usual", **what)
    assert list(compared.at_other_costs) == [0]


@pytest.mark.thorough
def test_elastic_jobs_say_themselves_what_restarts_cost() -> None:
    jobs = ap.generate_elastic_workload(jobs=4, seed=0)
    usual = ap.compare(["pollux"], jobs, "t4=8", n_jobs=1, start_costs="usual")
    assert usual.start_costs() is None
    with pytest.raises(ap.InputError, match="does nothing"):
        ap.compare(["pollux"], jobs, "t4=8", n_jobs=1, start_costs=[2])


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ({"start_costs": [-1.0]}, "start_costs"),
        ({"start_costs": ["x"]}, "start_costs"),
        ({"start_costs": "usuall"}, "start_costs"),
        ({"preemption_overhead_seconds": "mesured"}, "'measured'"),
        ({"preemption_overhead_seconds": {"LM (batch size 5)": "measured"}}, "LM"),
    ],
)
def test_what_is_no_cost_is_refused(what: Any, said: str) -> None:
    with pytest.raises(ap.InputError, match=said):
        ap.compare(["fifo"], some_jobs(4), CLUSTER, n_jobs=1, **what)
