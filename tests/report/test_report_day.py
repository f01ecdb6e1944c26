from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest

import apportion as ap
from apportion.report import PLOT_KINDS, day_figure, kinds_of, plot
from apportion.report.day_plots import STATE_COLOURS, loans_begun, spent
from apportion.report.style import inline_svg
from apportion.sim.inference import DiurnalRate, generate_requests

matplotlib = pytest.importorskip("matplotlib")

HOUR = 3600.0
STATES = pd.DataFrame(
    [
        (0, "free", "", None, 0.0, 1 * HOUR),
        (0, "running", "a", None, 1 * HOUR, 2 * HOUR),
        (0, "protected", "a", None, 2 * HOUR, 4 * HOUR),
        (1, "loaned", "", 7, 0.0, 2 * HOUR),
        (1, "loaned", "", 8, 2 * HOUR, 3 * HOUR),
        (1, "free", "", None, 3 * HOUR, 3.5 * HOUR),
        (1, "loaned", "", 7, 3.5 * HOUR, 4 * HOUR),
        (2, "training", "", 9, 0.0, 4 * HOUR),
    ],
    columns=["gpu", "state", "service", "job", "from_s", "to_s"],
)
REQUESTS = pd.DataFrame(
    {"arrival_s": [1 * HOUR], "start_s": [1 * HOUR], "finish_s": [2 * HOUR], "gpu": [0]}
)
RECLAIMS = pd.DataFrame({"time_s": [3 * HOUR], "gpu": [1], "job": [8]})
TABLES = {"requests": REQUESTS, "gpu_states": STATES, "reclaims": RECLAIMS}


def test_time_spent_in_each_state() -> None:
    rng = np.random.default_rng(0)
    names = ["free", "running", "loaned"]
    rows, exact = [], np.zeros((3, 2, 40))
    for gpu in range(2):
        edges = np.unique(np.concatenate([[0, 40], rng.integers(1, 40, 12)]))
        for begin, end in pairwise(edges.tolist()):
            state = int(rng.integers(3))
            rows.append((gpu, names[state], float(begin), float(end)))
            exact[state, gpu, begin:end] = 1.0
    table = pd.DataFrame(rows, columns=["gpu", "state", "from_s", "to_s"])
    table = table.sample(frac=1.0, random_state=0)
    for step in (1, 4, 8):
        found = spent(table, names, 2, np.arange(0.0, 40.1, step))
        np.testing.assert_allclose(found, exact.reshape(3, 2, -1, step).sum(axis=3), atol=1e-9)


def test_a_loan_that_goes_on_is_lent_once() -> None:
    assert loans_begun(STATES).tolist() == [0.0, 3.5 * HOUR]


def colour(image: Any, gpu: int, hour: float) -> str:
    pixels = image.get_array()
    return str(matplotlib.colors.to_hex(pixels[gpu, int(pixels.shape[1] * hour / 4.0)])).upper()


def test_every_gpu_has_the_colour_of_its_state() -> None:
    panels: list[Any] = day_figure({"x": TABLES}).axes
    gpus, load, loans = panels
    (image,) = gpus.images
    for _, row in STATES.iterrows():
        middle = (row["from_s"] + row["to_s"]) / 2 / HOUR
        assert colour(image, row["gpu"], middle) == STATE_COLOURS[row["state"]]
    assert image.get_extent() == [0.0, 4.0, 2.5, -0.5]
    assert gpus.get_title(loc="left") == "x"
    (marks,) = gpus.lines
    assert (marks.get_xdata().tolist(), marks.get_ydata().tolist()) == ([3.0], [1])
    loaned, training, asked = (line.get_ydata() for line in load.lines)
    assert loaned[0] == pytest.approx(1.0)
    assert loaned.mean() == pytest.approx(3.5 / 4)
    assert training.mean() == pytest.approx(1.0)
    assert asked.mean() * 4 == pytest.approx(1.0)  # one GPU-hour
    heights = [bar.get_height() for bar in loans.patches]
    assert sum(h for h in heights if h > 0) == 2
    assert sum(h for h in heights if h < 0) == -1
    assert loans.get_xlabel() == "time (hours)"


def test_states_within_a_pixel_are_mixed() -> None:
    begin = np.arange(0.0, 12_000.0, 1.0)
    states = pd.DataFrame({"gpu": 0, "from_s": begin, "to_s": begin + 1.0})
    states["state"] = np.where(begin % 4 == 0, "running", "free")
    figure: Any = day_figure({"": {"requests": REQUESTS, "gpu_states": states}})
    pixels = figure.axes[0].images[0].get_array()
    quarter = 0.25 * np.array(matplotlib.colors.to_rgb(STATE_COLOURS["running"])) + 0.75
    np.testing.assert_allclose(pixels[0].mean(axis=0), quarter, atol=1e-6)
    assert np.abs(pixels[0] - quarter).max() < 0.15


@pytest.mark.thorough
def test_requests_that_share_a_replica_add_up_to_no_load() -> None:
    requests = REQUESTS.assign(replica=0)
    figure: Any = day_figure({"": {**TABLES, "requests": requests}})
    assert len(figure.axes[1].lines) == 2  # loaned and training
    labels = {text.get_text() for text in figure.legends[0].get_texts()}
    assert "load (Erlangs)" not in labels


@pytest.mark.thorough
def test_a_run_that_only_serves_has_two_panels_and_short_ones_minutes() -> None:
    requests = generate_requests(DiurnalRate(0.5), length_s=600.0, slo_factor=3.0)
    run = ap.serve(requests, 3)
    tables = {"requests": run.requests, "gpu_states": run.gpu_states}
    figure: Any = day_figure({"": tables})
    assert len(figure.axes) == 2
    assert figure.axes[-1].get_xlabel() == "time (minutes)"
    assert inline_svg(figure, "day") == inline_svg(day_figure({"": tables}), "day")
    references = re.findall(r'href="([^"]{0,22})', inline_svg(figure, "day"))
    assert {each for each in references if each[0] != "#"} == {"data:image/png;base64,"}
    said = [text.get_text() for text in figure.legends[0].get_texts()]
    assert "running" in said
    assert "called back" not in said


def test_days_are_in_the_report_where_all_runs_have_the_tables() -> None:
    jobs = pd.DataFrame(
        {"job_type": ["a"], "total_steps": [10.0], "arrival_s": [0.0], "scale_factor": [1]}
    )
    index = pd.MultiIndex.from_tuples([("a", 1)], names=["job_type", "scale_factor"])
    workload = ap.Workload("one", jobs, pd.DataFrame({"v100": [1.0]}, index=index))
    run = ap.simulate("fifo", workload, {"v100": 1})
    serving = replace(run, tables={**run.tables, **TABLES})
    assert kinds_of({"a": serving}) == [*PLOT_KINDS, "gpus_held", "gantt", "day"]
    assert kinds_of({"a": serving, "b": run}) == [*PLOT_KINDS, "gpus_held", "gantt"]
    assert len(plot({"a": serving, "b": serving}, "day").axes) == 6
