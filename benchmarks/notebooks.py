"""``python -m benchmarks.notebooks``: a notebook for each kind of reader, made of pages.

They are written to ``examples/notebooks``, without outputs and outside of git: pages are edited.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from pathlib import Path

import jupytext

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples" / "notebooks"
READERS = {
    "operator": ("howto/own_log", "howto/choose"),
    "researcher": ("howto/own_policy", "systems/gavel"),
    "engineer": ("howto/own_network", "howto/service"),
    "student": ("tutorial/first_steps", "background/certificates"),
}
"""Pages of each notebook, in order."""


def page(name: str) -> str:
    """Give a page whose links lead from the folder of notebooks, and whose commands are shown."""
    file = ROOT / "docs" / f"{name}.md"
    text = file.read_text(encoding="utf-8")

    def moved(found: re.Match[str]) -> str:
        path, mark, heading = found[1].partition("#")
        if "://" in path:
            return found[0]
        target = (file.parent / path).resolve() if path else file
        return f"]({os.path.relpath(target, FOLDER)}{mark}{heading})"

    text = re.sub(r"\]\(([^)\s]+)\)", moved, text)
    # A cell would run what is a command of a shell.
    return re.sub(r"^```(bash|toml|json)$", "```text", text, flags=re.M)


def notebook(reader: str) -> str:
    """Write the notebook of a reader, as JSON: the same bytes each time."""
    text = "\n\n".join(page(name) for name in READERS[reader])
    made = jupytext.reads(text, fmt="md")
    cells = [
        {"cell_type": cell.cell_type, "metadata": {}, "source": cell.source} for cell in made.cells
    ]
    for cell in cells:
        if cell["cell_type"] == "code":
            cell.update(execution_count=None, outputs=[])
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    content = {
        "cells": cells,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 4,
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    """Write all notebooks."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.notebooks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the same; it takes a second")
    parser.add_argument("--out", type=Path, default=FOLDER, metavar="DIR", help="(default: there)")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for reader in READERS:
        (options.out / f"{reader}.ipynb").write_text(notebook(reader), encoding="utf-8")
        print(f"{reader}: {', '.join(READERS[reader])}")


if __name__ == "__main__":
    main()
