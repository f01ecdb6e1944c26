from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

from apportion.cluster import Cluster
from apportion.errors import InputError
from apportion.report import PLOT_KINDS, human_table, kinds_of, plot
from apportion.report.series import received_share, tier_occupancy
from apportion.sim import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RACKS = Cluster.of_racks(2, machines_per_rack=1, gpus_per_machine=4)


def a_run(policy: str = "dally", *, timers: bool = True) -> Run:
    """Three jobs, one per tier, in two rounds of 100 s; 8 GPUs."""
    jobs = pd.DataFrame(
        {
            "job_type": ["a", "a", "b"],
            "scale_factor": [1, 2, 4],
            "arrival_s": 0.0,
            "start_s": 0.0,
            "completion_s": [100.0, 200.0, 300.0],
            "jct_s": [100.0, 200.0, 300.0],
            "queueing_s": [0.0, 100.0, 100.0],
            "isolated_s": 100.0,
            "ftf": [1.0, 2.0, 3.0],
            "gpu_seconds": [100.0, 200.0, 800.0],
            "cost": np.nan,
            "preemptions": 0,
            "gpu_s": [100.0, 100.0, 200.0],
            "communication_s": [0.0, 30.0, 60.0],
            "compute_s": [100.0, 70.0, 140.0],
            "machine_s": [100.0, 0.0, 0.0],
            "rack_s": [0.0, 100.0, 0.0],
            "network_s": [0.0, 0.0, 200.0],
        },
        index=pd.RangeIndex(3, name="job"),
    )
    rounds = pd.DataFrame(
        {
            "start_s": [0.0, 100.0],
            "end_s": [100.0, 200.0],
            "active_jobs": 3.0,
            "running_jobs": 1.0,
            "preemptions": 0,
            "resolved": True,
            "gpu_busy": [300.0, 400.0],
            "machine_gpus": [100.0, 0.0],
            "rack_gpus": [200.0, 0.0],
            "network_gpus": [0.0, 400.0],
        }
    )
    set_timers = pd.DataFrame(
        {"time_s": [0.0, 50.0], "scale_factor": [4, 4], "machine_s": [1.0, 2.0], "rack_s": 3.0}
    )
    tables = {"timers": set_timers} if timers else {}
    return Run(policy, "w", RACKS, jobs, rounds, {}, 0.0, 0.0, 1, tables)


def a_run_in_rounds() -> Run:
    run = a_run("fifo")
    known = [name for name in run.jobs if name not in ("communication_s", "machine_s")]
    return replace(run, jobs=run.jobs[known], tables={})


def texts(figure: Figure) -> set[str]:
    of_axes = ((axes.get_title(loc="left"), axes.get_xlabel()) for axes in figure.axes)
    return {text for pair in of_axes for text in pair}


def test_tier_occupancy_by_hand() -> None:
    shares = tier_occupancy(a_run(), np.array([0.0, 50.0, 100.0, 150.0, 200.0, 250.0]))
    # 1 and 2 of 8 GPUs in the first round, 4 in the second; nothing is known of the time after.
    expected = np.array([[1, 1, 0, 0], [2, 2, 0, 0], [0, 0, 4, 4]]) / 8
    np.testing.assert_allclose(shares[:, :4], expected)
    assert np.isnan(shares[:, 4]).all()


def test_where_a_job_type_ran_is_told_by_tier() -> None:
    # Type a: 100 GPU-seconds in a machine and 200 in a rack; type b: all over racks.
    share = received_share(a_run(), ["a", "b"])
    np.testing.assert_allclose(3 * share, np.array([[1, 2, 0], [0, 0, 3]]))


def test_summary_of_runs_on_racks_by_hand() -> None:
    summary = a_run().summary()
    assert summary["communication_s"] == pytest.approx(30)
    assert summary["p95_queueing_s"] == pytest.approx(100)
    assert "communication_s" not in a_run_in_rounds().summary()


def test_plots_of_tiers_only_where_all_runs_know_them() -> None:
    tiers = ["queueing", "communication", "tiers"]
    assert kinds_of({"dally": a_run()}) == [*PLOT_KINDS, *tiers, "timers"]
    assert kinds_of({"dally": a_run(timers=False)}) == [*PLOT_KINDS, *tiers]
    mixed = {"dally": a_run(), "fifo": a_run_in_rounds()}
    assert kinds_of(mixed) == list(PLOT_KINDS)
    with pytest.raises(InputError, match="plot of these runs 'tiers'"):
        plot(mixed, "tiers")


@pytest.mark.parametrize("kind", ["queueing", "communication", "tiers", "timers", "received_time"])
def test_plots_of_runs_on_racks_are_drawn_and_labelled(kind: str) -> None:
    names = [f"scheduler {number}" for number in range(4)]
    figure = plot({name: a_run(name, timers=number < 2) for number, name in enumerate(names)}, kind)
    titles = {
        "queueing": {"Queueing delay", "time without GPUs (hours)"},
        "communication": {"Exposed communication"},
        "tiers": {*names, "time (s)"},
        "timers": {"Timers of scheduler 0", "Timers of scheduler 1"},
        "received_time": set(),
    }
    assert titles[kind] <= texts(figure)
    assert len([axes for axes in figure.axes if axes.has_data()]) >= 1


def test_the_curve_of_waits_begins_with_the_jobs_that_never_waited() -> None:
    (line,) = plot({"dally": a_run()}, "queueing").axes[0].get_lines()
    x, y = np.asarray(line.get_xydata(), dtype=float).T
    np.testing.assert_allclose(y, np.array([0, 1, 2, 3]) / 3)
    np.testing.assert_allclose(x, np.array([0, 0, 100, 100]) / 3600)


def test_columns_that_no_run_knows_are_left_out() -> None:
    racks = pd.DataFrame([a_run().summary()])
    rounds = pd.DataFrame([a_run_in_rounds().summary() | {"cost": 5.0}])
    brief = human_table(racks, brief=True)
    assert {"comm.", "p95 wait"} <= set(brief.header)
    assert not {"cost", "max FTF", "p99 wait"} & set(brief.header)
    assert {"max FTF", "p99 wait"} <= set(human_table(racks).header)
    assert {"cost", "max FTF"} <= set(human_table(rounds, brief=True).header)
    assert "comm." not in human_table(rounds).header
    assert "exposed communication" in brief.legend
    assert "exposed communication" not in human_table(rounds).legend
