"""The parts that the page on contributing shows, used from a folder outside the project."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("in_fresh_folder.py")
PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"


def parts() -> str:
    """Return what the page defines and makes known, without what it runs."""
    kept = []
    for block in re.findall("```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.S):
        for node in ast.parse(block).body:
            into = node.targets[0] if isinstance(node, ast.Assign) else None
            known = isinstance(into, ast.Subscript) or ast.unparse(node).startswith("columns =")
            defines = isinstance(node, (ast.Import, ast.ImportFrom, ast.ClassDef, ast.FunctionDef))
            kept += [ast.unparse(node)] if known or defines else []
    return "\n\n".join(kept)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["main", "module"])
def test_each_part_works_by_value_and_by_name_with_two_workers(tmp_path: Path, way: str) -> None:
    (tmp_path / "parts.py").write_text(parts())
    shutil.copy(SCRIPT, tmp_path / "run.py")
    words = [sys.executable, "run.py", way]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("as it should be") > 25
