"""Sections of the report: those of one's own stand beside those of the package."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from tests.report.test_report import Balance, a_comparison

from apportion.errors import InputError
from apportion.report import REPORT_SECTIONS, Section
from apportion.report.style import new_figure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apportion.experiments import Comparison

BUILT_IN = [
    "What was found",
    "Summary",
    "Groups of jobs",
    "Plots",
    "Workload",
    "Settings",
    "Repeat it",
]


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Forget sections behind a test."""
    yield
    REPORT_SECTIONS.take_over({})


def jobs_by_policy(comparison: Comparison) -> Section:
    mean_s = comparison.jobs().groupby("policy")["jct_s"].mean()
    return Section("Jobs & policies", mean_s.reset_index())


def headings(page: str) -> list[str]:
    return re.findall("<h2>(.*?)</h2>", page)


@pytest.mark.usefixtures("without_plots")
def test_a_section_of_ones_own_stands_behind_the_plots() -> None:
    comparison = a_comparison()
    assert headings(comparison.to_html()) == BUILT_IN
    REPORT_SECTIONS["by_policy"] = jobs_by_policy
    page = comparison.to_html()
    assert headings(page) == [*BUILT_IN[:4], "Jobs &amp; policies", *BUILT_IN[4:]]
    mean_s = comparison["fifo"].jobs["jct_s"].mean()
    assert f"<td>fifo</td>\n      <td>{mean_s:,.4g}</td>" in page
    chosen = comparison.to_html(sections=["by_policy", "workload"])
    assert headings(chosen) == ["Jobs &amp; policies", "Workload"]
    Balance().feed(page)


def figure() -> Any:
    made = new_figure()
    made.subplots().plot([1, 2], [2, 1])
    return made


def test_sections_are_html_tables_figures_and_lists_of_these() -> None:
    REPORT_SECTIONS["own"] = lambda comparison: Section(
        "All <kinds>", ["<p>text</p>", pd.DataFrame({"a<b": [1.5, None]}), figure(), figure()]
    )
    page = a_comparison().to_html(sections=["own"])
    assert headings(page) == ["All &lt;kinds&gt;"]
    for part in ("<p>text</p>", "<th>a&lt;b</th>", "<td>1.5</td>", "<td>-</td>"):
        assert part in page
    assert page.count("<svg") == 2
    checked = Balance()
    checked.feed(page)
    assert len(set(checked.ids)) == len(checked.ids)


@pytest.mark.usefixtures("without_plots")
def test_a_section_that_has_nothing_to_say_is_left_out() -> None:
    REPORT_SECTIONS["own"] = lambda comparison: None
    assert headings(a_comparison().to_html()) == BUILT_IN


def fails(comparison: Comparison) -> Section:
    return Section("never", str(comparison.runs["no such policy"]))


@pytest.mark.usefixtures("without_plots")
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (fails, r"KeyError: &#39;no such policy&#39;, raised in fails \(.*test_sections.py:\d+\)"),
        (lambda _: "text", r"&#39;own&#39; returns &#39;text&#39;; it must return a Section"),
        (lambda _: Section(5, ""), "returns Section"),  # type: ignore[arg-type]
        (lambda _: Section("a", 5), r"has the content 5; it must be HTML, a DataFrame"),  # type: ignore[arg-type]
        (lambda _: Section("a", ["b", None]), "has the content None"),  # type: ignore[list-item]
    ],
)
def test_a_section_that_fails_says_so_in_its_place(
    make: Any, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    REPORT_SECTIONS["own"] = make
    with caplog.at_level(logging.WARNING):
        page = a_comparison().to_html()
    assert headings(page) == [*BUILT_IN[:4], "own", *BUILT_IN[4:]]
    (text,) = re.findall('<h2>own</h2><p class="failed">(.*?)</p>', page)
    assert re.search(said, text)
    assert "test_sections.py:" in text
    assert "report section 'own' failed" in caplog.text


def test_an_unknown_section_is_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"report section 'sumary'\. Did you mean 'summary'"):
        a_comparison().to_html(sections=["plots", "sumary"])
    with pytest.raises(InputError, match="There is already a report section 'summary'"):
        REPORT_SECTIONS["summary"] = jobs_by_policy
    with pytest.raises(InputError, match="5 is no report section"):
        REPORT_SECTIONS["five"] = 5  # type: ignore[assignment]
