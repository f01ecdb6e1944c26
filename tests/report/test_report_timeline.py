from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import apportion as ap
from apportion.errors import InputError
from apportion.report import PLOT_KINDS, kinds_of, plot
from apportion.report.timeline_plots import _union

pytest.importorskip("matplotlib")

CLUSTER = ap.Cluster({"v100": 8}, gpus_per_machine=4)


def a_run(name: str = "srsf_2", *, timeline: bool = True, placement: str = "random") -> ap.Run:
    """Two gangs of four in two servers, and one GPU for a third: both gangs share both links."""
    base = ap.generate_contended_workload(seed=0)
    jobs = pd.DataFrame(
        {
            "job_type": ["ResNet-50", "VGG-16", "LSTM-PTB"],
            "scale_factor": [4, 4, 1],
            "total_steps": [3.0, 2.0, 4.0],
            "arrival_s": [0.0, 0.0, 0.1],
        }
    )
    workload = replace(base, jobs=jobs)
    return ap.simulate(name, workload, CLUSTER, placement=placement, timeline=timeline)


def drawn(run: ap.Run, panel: int) -> list[tuple[float, float]]:
    """Return the horizontal extent of every bar of a panel."""
    axes = plot({"one": run}, "timeline").axes[panel]
    extents = []
    for bars in axes.collections:
        for path in bars.get_paths():
            x = np.asarray(path.vertices, dtype=float)[:, 0]
            extents.append((float(x.min()), float(x.max())))
    return extents


def test_timelines_are_there_where_all_runs_have_the_tables() -> None:
    run, without = a_run(), a_run(timeline=False)
    assert kinds_of({"a": run}) == [*PLOT_KINDS, "gpus_held", "timeline", "iterations"]
    several = [*PLOT_KINDS, "gpus_held", "gantt", "iterations"]
    assert kinds_of({"a": run, "b": without}) == several
    with pytest.raises(InputError, match="plot of these runs 'timeline'"):
        plot({"a": without}, "timeline")


def test_every_task_is_on_its_gpu_and_every_transfer_on_its_links() -> None:
    run = a_run()
    figure = plot({"one": run}, "timeline")
    jobs, gpus, links = figure.axes
    labels = [[text.get_text() for text in axes.get_yticklabels()] for axes in (jobs, gpus, links)]
    assert labels[0] == ["job 0", "job 1", "job 2"]
    assert labels[1] == [f"GPU {gpu}" for gpu in sorted(set(run.tables["tasks"]["gpu"]))]
    assert labels[2] == ["link 0", "link 1"]
    assert jobs.get_title(loc="left") == "one"
    # Beside the tasks, one stretch for each GPU in which somebody has it.
    tasks = run.tables["tasks"]
    bars = drawn(run, 1)
    computed_s = (tasks["end_s"] - tasks["start_s"]).sum()
    spans = sorted(zip(tasks["start_s"].tolist(), tasks["end_s"].tolist(), strict=True))
    assert len(bars) >= len(tasks)
    for span in spans:
        assert any(span == pytest.approx(bar) for bar in bars)
    assert sum(end_s - start_s for start_s, end_s in spans) == pytest.approx(computed_s)
    sent = run.tables["transfers"]
    stretches = _union(list(zip(sent["start_s"].tolist(), sent["end_s"].tolist(), strict=True)))
    on_links = _union(drawn(run, 2))
    assert len(on_links) == len(stretches)
    for ours, theirs in zip(on_links, stretches, strict=True):
        assert ours == pytest.approx(theirs)


def test_a_run_in_which_nobody_sends_has_no_links() -> None:
    run = a_run(placement="lwf_1")
    assert not len(run.tables["transfers"])
    figure = plot({"one": run}, "timeline")
    assert not figure.axes[2].get_yticklabels()


def test_long_runs_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apportion.report.timeline_plots._MOST_TASKS", 20)
    run = a_run()
    jobs, gpus, _ = plot({"one": run}, "timeline").axes
    end_s = sorted(run.tables["tasks"]["end_s"])[19]
    assert jobs.get_title(loc="left") == f"one, the first {end_s:.3g} s"
    assert gpus.get_xlim() == pytest.approx((0, end_s))
