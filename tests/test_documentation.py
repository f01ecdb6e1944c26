from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from apportion.policies import BUILT_IN, SPECIALISED

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])


def run(script: Path, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def code_of(page: str) -> str:
    text = (ROOT / page).read_text(encoding="utf-8")
    return "\n\n".join(re.findall(r"^```python\n(.*?)^```$", text, flags=re.S | re.M))


def policy_rows() -> list[str]:
    rows = [(p.name, p.problem, p.source) for p in BUILT_IN + SPECIALISED]
    return [f"| `{name}` | {problem} | {source} |" for name, problem, source in rows]


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_the_code_of_a_page_runs_from_top_to_bottom(page: str, tmp_path: Path) -> None:
    script = tmp_path / "page.py"
    script.write_text(code_of(page), encoding="utf-8")
    run(script, tmp_path)


def test_the_readme_prints_what_solve_prints(tmp_path: Path) -> None:
    script = tmp_path / "first.py"
    script.write_text(code_of("README.md").split("print(allocation)")[0] + "print(allocation)\n")
    shown = (ROOT / "README.md").read_text(encoding="utf-8")
    for line in run(script, tmp_path).splitlines()[1:]:  # the gap differs in its last digits
        assert line in shown


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run(example: Path, tmp_path: Path) -> None:
    assert len(run(example, tmp_path).splitlines()) > 5


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 5


def test_the_readme_lists_the_built_in_policies() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    table = text.split("<!-- policies -->")[1].split("<!-- end of policies -->")[0]
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    assert rows == policy_rows(), "the table should be:\n" + "\n".join(policy_rows())


def test_the_definitions_name_every_built_in_policy() -> None:
    text = (ROOT / "docs" / "policies.md").read_text(encoding="utf-8")
    missing = [policy.name for policy in BUILT_IN if f"`{policy.name}`" not in text]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8"))
    local = [target for target in targets if "://" not in target]
    assert [target for target in local if not (page.parent / target).exists()] == []
