"""The report in a browser: no error at any width, nothing wider than the page, clicks that work."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import apportion as ap
from apportion.cluster import TIERS
from apportion.report.series import (
    busiest_job_types,
    natural,
    tier_occupancy,
    time_bins,
    utilization,
)

if TYPE_CHECKING:
    from pathlib import Path

    from apportion.experiments import Comparison

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]


@pytest.fixture(scope="module")
def compared() -> Comparison:
    pytest.importorskip("matplotlib")
    workload = ap.generate_workload(jobs=30, seed=2, jobs_per_hour=9)
    policies = ["max_min_fairness", "fifo", "fcfs"]
    return ap.compare(policies, workload, "v100=4,k80=4", n_jobs=1, progress=False)


@pytest.fixture(scope="module")
def page(compared: Comparison) -> str:
    return compared.to_html()


def opened(page: str, folder: Path, script: str = "null", width: int = 900) -> tuple[Any, str]:
    """Open a page, and return what a script gives there, and what the console says."""
    asks = f"document.body.dataset.found = JSON.stringify((() => {{ return {script} }})());"
    html = page.replace(
        "</body>", f'<script>addEventListener("load", () => {{ {asks} }});</script></body>'
    )
    (folder / "page.html").write_text(html, "utf-8")
    # Browsers do not make their windows as narrow as telephones: a frame is.
    frame = (
        f'<iframe id="f" src="page.html" style="width:{width}px;height:900px;border:0"></iframe>'
    )
    copied = "document.body.dataset.found = f.contentDocument.body.dataset.found"
    (folder / "frame.html").write_text(
        f"<!DOCTYPE html><body>{frame}<script>addEventListener('load', () => {copied});</script>"
    )
    words = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"]
    words += ["--allow-file-access-from-files", f"--user-data-dir={folder / 'profile'}"]
    words += [f"--window-size={width + 100},1000", "--virtual-time-budget=2000"]
    done = subprocess.run(
        [str(CHROMIUM), *words, (folder / "frame.html").as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    found = re.search(r'data-found="([^"]*)"', done.stdout)
    said = "\n".join(line for line in done.stderr.splitlines() if "CONSOLE" in line)
    return json.loads(
        found[1].replace("&quot;", '"').replace("&amp;", "&")
    ) if found else None, said


@pytest.mark.parametrize("width", [400, 900, 1800])
def test_no_width_has_errors_or_is_wider_than_the_page(
    page: str, tmp_path: Path, width: int
) -> None:
    script = "[innerWidth, document.documentElement.scrollWidth]"
    (inner, scrolled), said = opened(page, tmp_path, script, width)
    assert (inner, said) == (width, "")
    assert scrolled <= inner


def test_errors_of_a_page_are_seen(page: str, tmp_path: Path) -> None:
    _, said = opened(page.replace("<script>", "<script>unknown();"), tmp_path)
    assert "unknown is not defined" in said


def test_a_click_sorts_a_table_by_numbers_and_by_names(tmp_path: Path) -> None:
    from apportion.report.files import page_of

    rows = [("job-10", "9.5*"), ("job-2", "1,000~"), ("job-1", "-"), ("job-20", "-3")]
    body = "".join(f"<tr><td>{a}</td><td>{b}</td></tr>" for a, b in rows)
    table = f"<table><thead><tr><th>a<th>b</tr></thead><tbody>{body}</tbody></table>"
    html = page_of("x", "x", "x", [("x", table)])
    script = """[0, 0, 1, 1].map(which => {
        document.querySelectorAll("th")[which].click();
        return [...document.querySelectorAll("td:first-child")].map(each => each.textContent);
    })"""
    names = sorted([name for name, _ in rows], key=natural)
    up = ["job-20", "job-10", "job-2", "job-1"]
    expected = [names, names[::-1], up, ["job-2", "job-10", "job-20", "job-1"]]
    assert opened(html, tmp_path, script) == (expected, "")


def test_a_name_in_a_legend_shows_and_hides_its_series(page: str, tmp_path: Path) -> None:
    script = """[0, 1].map(() => {
        const svg = document.querySelector("figure.active_jobs svg");
        svg.querySelector("[id$='-legend-1']").dispatchEvent(new MouseEvent("click"));
        return [...svg.querySelectorAll("[id*='-series-']")]
            .map(each => each.id.split("series-")[1] + getComputedStyle(each).display);
    })"""
    (off, on), said = opened(page, tmp_path, script)
    of = ["0-0", "1-0", "2-0", "0-1", "1-1", "2-1"]  # running jobs, then waiting ones
    assert said == ""
    assert off == [each + ("none" if each[0] == "1" else "inline") for each in of]
    assert on == [each + "inline" for each in of]


LINES = """(() => {
    const svg = document.querySelector("figure.utilization svg"), axes = svg.axes[0];
    const tip = document.querySelector(".tip");
"""


def test_the_pointer_reads_values_and_bars(compared: Comparison, page: str, tmp_path: Path) -> None:
    script = f"""{LINES}
        svg.scrollIntoView();
        const at = new DOMPoint(axes.left + axes.width / 3, axes.top + axes.height / 2)
            .matrixTransform(svg.getScreenCTM());
        svg.dispatchEvent(new PointerEvent("pointermove", {{clientX: at.x, clientY: at.y}}));
        const said = [tip.hidden, tip.textContent, axes.x.value(1 / 3)];
        svg.dispatchEvent(new PointerEvent("pointerleave"));
        const bar = document.querySelector("figure.gantt [data-bar]");
        return [...said, tip.hidden, bar.dataset.told]; }})()"""
    (hidden, told, when, hidden_after, bar), said = opened(page, tmp_path, script)
    assert (said, hidden, hidden_after) == ("", False, True)
    lines = told.splitlines()
    assert lines[0] == f"time (h) {float(f'{when:.4g}'):g}"
    edges = time_bins(list(compared.runs.values()))
    for line, (policy, run) in zip(lines[1:], compared.runs.items(), strict=True):
        name, value = line.split(": ")
        drawn = np.interp(when, (edges[1:] + edges[:-1]) / 7200, 100 * utilization(run, edges))
        assert name == policy
        assert float(value) == pytest.approx(drawn, abs=0.2)
    assert re.fullmatch(r"job \d+, .+\n(v100|k80) [0-3], [\d.]+ to [\d.]+ h", bar)


def pointed(kind: str, panel: int, x: float, y: float) -> str:
    """Return a script that gives what the tip says at parts of the width and height of axes."""
    return f"""(() => {{
        const svg = document.querySelector("figure.{kind} svg"), axes = svg.axes[{panel}];
        svg.scrollIntoView();
        const at = new DOMPoint(axes.left + {x} * axes.width, axes.top + {1 - y} * axes.height)
            .matrixTransform(svg.getScreenCTM());
        svg.dispatchEvent(new PointerEvent("pointermove", {{clientX: at.x, clientY: at.y}}));
        return [document.querySelector(".tip").textContent, axes.x.value({x})]; }})()"""


def test_the_pointer_reads_the_heat_map(compared: Comparison, page: str, tmp_path: Path) -> None:
    run = compared["fifo"]
    types = busiest_job_types(list(compared.runs.values()))
    row = len(types) // 2
    place = (1.5 / 2, 1 - (row + 0.5) / len(types))  # rows from above
    (told, _), said = opened(page, tmp_path, pointed("received_time", 1, *place))
    jobs = run.jobs[run.jobs["job_type"] == types[row]]
    held = [(jobs[f"{name}_s"] * jobs["scale_factor"]).sum() for name in ("v100", "k80")]
    assert said == ""
    assert told == f"{types[row]} on k80: {100 * held[1] / sum(held):.3g} %"


def test_the_pointer_reads_each_layer_of_a_stack(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    racks = ap.Cluster.of_racks(2, machines_per_rack=4, gpus_per_machine=4, accelerator="gpu")
    workload = ap.generate_rack_workload(jobs=12, seed=1)
    small = workload.jobs.assign(scale_factor=[1, 2, 8] * 4)
    jobs = ap.Workload("racks", small, workload.throughputs)
    made = ap.compare(["tiresias"], jobs, racks, n_jobs=1, progress=False)
    (told, hours), said = opened(made.to_html(), tmp_path, pointed("tiers", 0, 0.3, 0.9))
    lines = told.splitlines()
    assert said == ""
    assert lines[0].startswith("time (h)")
    edges = time_bins([made["tiresias"]])
    shares = 100 * np.nan_to_num(tier_occupancy(made["tiresias"], edges))
    assert (shares.sum(axis=1) > 0).sum() > 1
    for line, tier, share in zip(lines[1:], TIERS, shares, strict=True):
        name, value = line.split(": ")
        drawn = np.interp(hours, (edges[1:] + edges[:-1]) / 7200, share)
        assert name == tier
        assert float(value) == pytest.approx(drawn, abs=0.2)


def test_keys_and_buttons_zoom_and_show_all_again(page: str, tmp_path: Path) -> None:
    script = f"""{LINES}
        const press = key => axes.group.dispatchEvent(new KeyboardEvent("keydown", {{key}}));
        const ticks = () => [...axes.group.querySelectorAll(".ticks text")].map(
            each => +each.textContent);
        const seen = () => [axes.from, axes.to, ticks(),
            axes.x.value(axes.from), axes.x.value(axes.to)];
        const found = [seen()];
        press("+"); press("+"); found.push(seen());
        press("-"); found.push(seen());
        press("0"); found.push(seen());
        svg.nextElementSibling.querySelector("[aria-label='zoom in']").click(); found.push(seen());
        svg.dispatchEvent(new MouseEvent("dblclick", {{clientX: 0, clientY: 0}}));
        const panels = document.querySelector("figure.active_jobs svg").axes;
        panels[0].show(0.25, 0.5);
        return [found, panels.map(each => [each.from, each.to])]; }})()"""
    (found, panels), said = opened(page, tmp_path, script)
    assert said == ""
    shown = [each[:2] for each in found]
    assert shown == [[0, 1], [0.375, 0.625], [0.25, 0.75], [0, 1], [0.25, 0.75]]
    assert [bool(each[2]) for each in found] == [False, True, True, False, True]
    for _, _, ticks, low, high in (found[1], found[2], found[4]):
        assert all(low - 1e-6 <= tick <= high + 1e-6 for tick in ticks)
        assert 3 <= len(ticks) <= 8
    assert panels == [[0.25, 0.5], [0.25, 0.5]]  # those above each other go together
