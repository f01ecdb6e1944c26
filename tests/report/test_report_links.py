from __future__ import annotations

import io
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

import apportion as ap
from apportion.mechanism.time_shifts import AffinityGraph
from apportion.report import kinds_of, plot
from apportion.report.link_plots import affinity_figure, compatibility_figure

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("matplotlib")

OF_LINKS = {"shared_link", "affinity_graph"}


def png(figure: object) -> bytes:
    stream = io.BytesIO()
    figure.savefig(stream, format="png")  # type: ignore[attr-defined]
    return stream.getvalue()


def test_circles_and_loads_before_and_after_rotation() -> None:
    jobs = [ap.CommunicationProfile("a$", 0.1, [(0.0, 0.05, 50.0)]) for _ in range(2)]
    figure = compatibility_figure(ap.compatibility(jobs, 50))
    before, after, load_before, load_after = figure.axes
    assert (before.name, after.name) == ("polar", "polar")
    assert load_before.get_title(loc="left") == "as they start: score 0.5"
    assert load_after.get_title(loc="left") == "shifted: score 1"
    # Rings and phases of two jobs; in red, what is too much, only before.
    red = (178 / 255, 34 / 255, 34 / 255)
    counts = [
        sum(np.allclose(patch.get_facecolor()[:3], red) for patch in axes.patches)
        for axes in (before, after)
    ]
    assert counts == [1, 0]
    assert [text.get_text() for text in figure.legends[0].get_texts()][:2] == ["a$ (1)", "a$ (2)"]
    assert png(figure).startswith(b"\x89PNG")


def test_incommensurate_jobs_have_no_circle() -> None:
    jobs = [ap.CommunicationProfile("a", t, [(0.0, 0.05, 30.0)]) for t in (0.1, 0.2**0.5)]
    figure = compatibility_figure(ap.compatibility(jobs, 50))
    assert [axes.name for axes in figure.axes] == ["rectilinear"] * 2
    assert png(figure)


def test_a_link_that_nobody_uses() -> None:
    assert png(compatibility_figure(ap.compatibility([ap.CommunicationProfile("idle", 1)], 50)))


def test_an_affinity_graph() -> None:
    graph = AffinityGraph({"up": ("a", "b"), "down": ("b", "c"), "other": ("d", "e")})
    figure = affinity_figure(graph, {"a": 0.0, "b": 0.025})
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert {"up", "down", "other", "a  +0 ms", "b  +25 ms", "c", "d", "e"} == set(texts)
    assert "no loop" in figure.axes[0].get_title(loc="center")
    loop = affinity_figure(AffinityGraph({"up": ("a", "b"), "down": ("a", "b")}))
    assert "a loop" in loop.axes[0].get_title(loc="center")
    assert png(affinity_figure(AffinityGraph({})))


def shared_run(placement: str, network: str = "cassini") -> ap.Run:
    """Three gangs of three on machines of one GPU, of which racks of two are shared."""
    jobs = pd.DataFrame(
        {"arrival_s": 0.0, "job_type": "ResNet50", "scale_factor": 3, "total_steps": 900.0},
        index=["a<", "b$", "c"],
    )
    rows = pd.MultiIndex.from_tuples([("ResNet50", 3)], names=["job_type", "scale_factor"])
    speed = pd.DataFrame({"a100": [1.0]}, index=rows)
    cluster = ap.Cluster({"a100": 10}, gpus_per_machine=1, machines_per_rack=2)
    mechanism = ap.Leases(placement=placement, network=network)
    return ap.simulate(
        "max_min_fairness", ap.Workload("w", jobs, speed), cluster, mechanism=mechanism
    )


@pytest.mark.thorough
def test_the_report_shows_links_that_are_shared() -> None:
    runs = {"as it comes": shared_run("random"), "CASSINI": shared_run("cassini")}
    assert {*kinds_of(runs)} >= OF_LINKS
    link = plot(runs, "shared_link")
    titles = [part.get_suptitle() for part in link.subfigs]
    assert titles[0].startswith("as it comes: a100 rack")
    assert titles[1].startswith("CASSINI: ")
    graph = plot(runs, "affinity_graph")
    assert graph.axes[0].get_title(loc="left").startswith("as it comes at 0 s: ")
    texts = {text.get_text().split("  +")[0] for text in graph.axes[0].texts}
    assert texts >= {"a< (ResNet50)", "b$ (ResNet50)", "c (ResNet50)"}
    assert png(link)
    assert png(graph)


def test_links_are_shown_only_of_runs_that_share_some() -> None:
    without = shared_run("consolidated", network="contention")
    sharing = shared_run("random")
    assert not set(kinds_of({"a": without})) & OF_LINKS
    assert not set(kinds_of({"a": without, "b": sharing})) & OF_LINKS
    nobody = sharing.tables["busiest_links"].iloc[:0]
    lonely = replace(sharing, tables={**sharing.tables, "busiest_links": nobody})
    assert not set(kinds_of({"a": lonely})) & OF_LINKS
    both = plot({"a": lonely, "b": sharing}, "affinity_graph")
    assert "nobody" in both.axes[0].get_title(loc="left")
    assert "nobody" in plot({"a": lonely, "b": sharing}, "shared_link").subfigs[0].get_suptitle()


def test_iterations_are_shown_of_runs_that_tell_of_them() -> None:
    sharing = shared_run("random", network="phases")
    silent = replace(sharing, tables={})
    assert "iterations" not in kinds_of({"a": silent})
    figure = plot({"a": silent, "b": sharing}, "iterations")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["b"]
    assert [len(axes.lines) for axes in figure.axes] == [1, 1]


def test_times_of_iterations_are_written_with_a_comparison(tmp_path: Path) -> None:
    workload = ap.generate_communicating_workload(3, models=["ResNet50"])
    cluster = ap.Cluster({"a100": 12}, gpus_per_machine=1, machines_per_rack=2)
    how = ap.Leases(network="phases")
    compared = ap.compare(["max_min_fairness"], workload, cluster, mechanism=how, n_jobs=1)
    compared.to_csv(tmp_path)
    written = pd.read_csv(tmp_path / "iteration_times.csv")
    assert written["model"].tolist() == ["ResNet50", "all"]
    assert {"policy", "mean_s", "p99_s", "marks_gigabits"} <= set(written.columns)
