"""Notebooks of pages: they are what the command writes, and run from top to bottom."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("jupytext", reason="notebooks are made with pip install 'apportion[dev]'")

from benchmarks.notebooks import FOLDER, READERS, ROOT, notebook
from benchmarks.readme import python_blocks

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("reader", READERS)
def test_a_notebook_has_the_code_of_its_pages_and_links_that_lead_there(reader: str) -> None:
    cells = json.loads(notebook(reader))["cells"]
    code = [cell["source"].strip() for cell in cells if cell["cell_type"] == "code"]
    pages = [ROOT / "docs" / f"{name}.md" for name in READERS[reader]]
    blocks = [each for page in pages for each in python_blocks(page.read_text(encoding="utf-8"))]
    assert code == [block.strip() for block in blocks]
    assert len(code) >= 2
    text = "\n".join(cell["source"] for cell in cells if cell["cell_type"] == "markdown")
    links = [link for link in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in link]
    assert links
    assert [link for link in links if not (FOLDER / link).resolve().exists()] == []


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.filterwarnings("default")
def test_a_notebook_runs_from_top_to_bottom(reader: str, tmp_path: Path) -> None:
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    made = nbformat.reads(notebook(reader), as_version=4)
    resources = {"metadata": {"path": str(tmp_path)}}
    done = nbclient.NotebookClient(made, timeout=600, resources=resources).execute()
    assert any(cell.get("outputs") for cell in done.cells)
