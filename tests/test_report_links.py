from __future__ import annotations

import io

import numpy as np
import pytest

import apportion as ap
from apportion.mechanism.time_shifts import AffinityGraph
from apportion.report.link_plots import affinity_figure, compatibility_figure

pytest.importorskip("matplotlib")


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
    assert {"up", "down", "other", "a  +0 s", "b  +0.025 s", "c", "d", "e"} == set(texts)
    assert "no loop" in figure.axes[0].get_title(loc="center")
    loop = affinity_figure(AffinityGraph({"up": ("a", "b"), "down": ("a", "b")}))
    assert "a loop" in loop.axes[0].get_title(loc="center")
    assert png(affinity_figure(AffinityGraph({})))
