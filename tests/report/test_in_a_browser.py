"""The report in a browser: no error at any width, nothing wider than the page, clicks that work."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

import apportion as ap
from apportion.report.series import natural

if TYPE_CHECKING:
    from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]


@pytest.fixture(scope="module")
def page() -> str:
    pytest.importorskip("matplotlib")
    workload = ap.generate_workload(jobs=30, seed=2, jobs_per_hour=9)
    policies = ["max_min_fairness", "fifo", "fcfs"]
    return ap.compare(policies, workload, "v100=4,k80=4", n_jobs=1, progress=False).to_html()


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
    from apportion.report.html import page_of

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
