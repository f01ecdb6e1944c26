from __future__ import annotations

from xml.etree import ElementTree

import pytest

import apportion as ap

LOUD = "<script>alert(1)</script>"


def tables(shown: str) -> list[list[list[str]]]:
    """Give the cells of each table of a piece of HTML, which must be well formed."""
    closed = shown.replace("<br>", "<br/>").replace("&nbsp;", " ")
    page = ElementTree.fromstring(f"<div>{closed}</div>")
    return [
        [["".join(cell.itertext()).strip() for cell in row] for row in table.iter("tr")]
        for table in page.iter("table")
    ]


@pytest.fixture(scope="module")
def workload() -> ap.Workload:
    drawn = ap.generate_workload(jobs=30, seed=0)
    return ap.Workload(LOUD, drawn.jobs, drawn.throughputs)


def test_a_workload_shows_some_of_its_jobs(workload: ap.Workload) -> None:
    shown = workload._repr_html_()
    assert LOUD not in shown
    (table,) = tables(shown)
    assert table[0][1:] == list(workload.jobs.columns)
    assert 10 < len(table) < 20  # not all 30


def test_a_run_shows_the_figures_of_its_summary(workload: ap.Workload) -> None:
    run = ap.simulate("fcfs", workload, "v100=4,p100=4,k80=4")
    shown = run._repr_html_()
    assert LOUD not in shown
    ((head, row),) = tables(shown)
    said = dict(zip(head, row, strict=True))
    assert float(said["mean JCT, h"]) == pytest.approx(run.jobs["jct_s"].mean() / 3600, rel=1e-3)
    assert float(said["makespan, h"]) == pytest.approx(
        run.jobs["completion_s"].max() / 3600, rel=1e-3
    )


def test_a_cluster_shows_its_machines() -> None:
    (table,) = tables(ap.Cluster({"v100": 10, "own": 3}, gpus_per_machine=4)._repr_html_())
    assert [row[:4] for row in table[1:]] == [["v100", "10", "3", "4"], ["own", "3", "1", "4"]]


def test_jobs_on_a_link_show_their_shifts() -> None:
    half = ap.CommunicationProfile(LOUD, 0.2, [(0.1, 0.1, 50.0)])
    found = ap.compatibility([half, half.named("other")], 50)
    shown = found._repr_html_()
    assert LOUD not in shown
    assert "score 1 with these shifts, 0.5 without" in shown
    (table,) = tables(shown)
    assert sorted(float(row[2]) for row in table[1:]) == pytest.approx([0.0, 0.1])


def test_a_session_shows_who_is_there() -> None:
    with ap.session("max_min_fairness", "v100=1,k80=1") as session:
        session.add({LOUD: {"v100": 4.0, "k80": 1.0}})
        assert repr(session) == "<Session of MaxMinFairness(): 1 jobs on v100=1,k80=1>"
        assert LOUD not in session._repr_html_()
        assert tables(session._repr_html_()) == [[["job"], [LOUD]]]


def test_a_sweep_shows_its_tables() -> None:
    swept = ap.sweep(
        ["fcfs", "easy"], {"jobs": 6, "jobs_per_hour": 6.0}, "v100=4", seeds=[0, 1], n_jobs=1
    )
    ((_, *rows),) = tables(swept._repr_html_() or "")
    assert [row[0] for row in rows] == ["fcfs", "easy"]
