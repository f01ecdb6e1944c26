from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import apportion as ap
from apportion.errors import InputError
from apportion.report import gantt_figure, kinds_of, plot
from apportion.report.series import natural

if TYPE_CHECKING:
    from collections.abc import Iterator


def bars_of(axes: Any) -> list[Any]:
    return list(axes.patches)


def stays_of(run: ap.Run) -> Iterator[tuple[str, list[int], float, float]]:
    """Accelerator, devices, start and end of each stay."""
    names = ["accelerator", "devices", "start_s", "end_s"]
    yield from zip(*(run.schedule[name].tolist() for name in names), strict=True)


@pytest.fixture(scope="module")
def run() -> ap.Run:
    workload = ap.generate_workload(jobs=25, seed=2, jobs_per_hour=9, scale_factors="gavel")
    return ap.simulate("fcfs", workload, "v100=8,p100=8,k80=8")


def test_bars_are_the_stays_of_the_schedule(run: ap.Run) -> None:
    pytest.importorskip("matplotlib")
    (axes,) = gantt_figure(run).axes
    rows = [label.get_text() for label in axes.get_yticklabels()]
    assert rows == [f"{name} {n}" for name, gpus in run.cluster.gpus.items() for n in range(gpus)]
    drawn = {
        (rows[round(bar.get_y() + bar.get_height() / 2)], bar.get_x(), bar.get_width())
        for bar in bars_of(axes)
    }
    expected = {
        (f"{accelerator} {device}", start_s / 3600, (end_s - start_s) / 3600)
        for accelerator, devices, start_s, end_s in stays_of(run)
        for device in devices
    }
    assert len(drawn) == len(expected) == run.schedule["devices"].map(len).sum()
    for mine, theirs in zip(sorted(drawn), sorted(expected), strict=True):
        assert mine[0] == theirs[0]
        assert mine[1:] == pytest.approx(theirs[1:])


def test_types_of_jobs_are_told_apart(run: ap.Run) -> None:
    pytest.importorskip("matplotlib")
    (axes,) = gantt_figure(run).axes
    types = run.jobs["job_type"].nunique()
    looks = {(bar.get_facecolor(), bar.get_hatch()) for bar in axes.patches}
    assert types > 7
    assert len(looks) == types


def test_what_no_picture_can_show_is_refused(run: ap.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apportion.report.gantt._MOST_BARS", 3)
    with pytest.raises(InputError, match="at most 3 stays"):
        gantt_figure(run)


def test_a_page_has_it_of_small_clusters_and_cut_where_there_are_many_bars(
    run: ap.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    runs = {str(n): run for n in range(4)}
    assert "gantt" in kinds_of(runs)
    monkeypatch.setattr("apportion.report.gantt._PAGE_BARS", 20)
    panels = plot(runs, "gantt").axes
    assert len(panels) == 3
    bars = [bar for axes in panels for bar in bars_of(axes)]
    assert 0 < len(bars) <= 20
    begun = sorted(start_s for _, gpus, start_s, _ in stays_of(run) for _ in gpus for _ in "abc")
    assert max(bar.get_x() + bar.get_width() for bar in bars) <= begun[20] * (1 + 1e-12)
    assert f"the first {begun[20]:.3g} s" in panels[0].get_title(loc="left")
    monkeypatch.setattr("apportion.report.gantt._PAGE_GPUS", 23)
    assert "gantt" not in kinds_of(runs)


def test_names_are_sorted_as_people_do() -> None:
    names = ["job-10", "job-2", "a", "job-02", "2", "10", "job-2-b", "\u00b2"]
    expected = ["2", "10", "a", "job-02", "job-2", "job-2-b", "job-10", "\u00b2"]
    assert sorted(names, key=natural) == expected
    assert sorted(reversed(names), key=natural) == expected
