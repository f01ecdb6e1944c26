"""How pages read: sentences that must be read twice are found by their length."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from benchmarks.readability import measured, pages_at, prose, sentences

ROOT = Path(__file__).parents[2]
PAGES = pages_at(None)
LEADING = (
    *("README.md", "docs/tutorial/first_steps.md", "docs/index.md"),
    *(f"docs/howto/{name}.md" for name in ("choose", "own_log", "own_policy", "own_network")),
    *(f"docs/howto/{name}.md" for name in ("share_gpus", "read_a_report", "sweep_on_ray")),
    *(f"docs/systems/{name}.md" for name in ("gavel", "dally", "ada_srsf")),
    *(f"docs/background/{name}.md" for name in ("certificates", "rounds_and_leases")),
)
"""Pages that lead somebody who is new; the others are looked things up in."""


def test_sentences_are_counted_without_code_tables_and_headings() -> None:
    text = (
        "# A heading that is long\n\nOne two three four. Five six `code of a line` seven eight!\n\n"
        "| a | table is no sentence at all |\n\n- An item of a list\n- and [a link](to.md) here\n\n"
        "```python\nthis is no sentence = 1\n```\n"
    )
    assert [len(each.split()) for each in sentences(text)] == [4, 5, 5, 4]
    assert "heading" not in prose(text)
    assert measured(text)["words"] == 18


@pytest.mark.parametrize("page", LEADING)
def test_a_page_that_leads_has_short_sentences(page: str) -> None:
    figures = measured(PAGES[page])
    assert figures["mean"] <= 21
    longest = max(sentences(PAGES[page]), key=lambda each: len(each.split()))
    assert len(longest.split()) <= 45, longest


def test_no_sentence_is_endless() -> None:
    found = [each for text in PAGES.values() for each in sentences(text)]
    assert [each for each in found if len(each.split()) > 70] == []


def test_the_citation_names_the_version_that_is_installed() -> None:
    version = re.search(r'"(.+)"', (ROOT / "src/apportion/_version.py").read_text().split("=")[1])
    assert version is not None
    assert f"version: {version[1]}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_spelling_is_checked_where_people_read() -> None:
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    assert "skip" in tool["codespell"]
    assert "codespell *.md docs" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
