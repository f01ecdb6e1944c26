from __future__ import annotations

import os
import pkgutil
import re
import subprocess
import sys
from inspect import cleandoc
from pathlib import Path

import pytest
from tests.in_process import run_script

import apportion as ap
from apportion.mechanisms import MECHANISMS
from apportion.names import POLICY_NAMES
from apportion.policies import get_policy, policy_table
from apportion.testing import drawn
from benchmarks.readme import PAGES as PRINTED_ON
from benchmarks.readme import PRINTED, block, compared, python_blocks, with_block

ROOT = Path(__file__).parents[1]
FIRST = "the first command"
# Run with the slow tests, which .ci/run does: what takes seconds to print; and in processes of
# their own, as users have them, the pages that one begins with and those with parts for workers.
SLOW = {FIRST, "sharing"}
APART = {"README.md", "CONTRIBUTING.md", "first_steps.md", "own_network.md"}
LONG = {"ada_srsf.md", "answers.md", "cassini.md", "choose.md", "dally.md", "elastic.md"}
LONG |= {"gavel.md", "policies.md", "rounds_and_leases.md", "share_gpus.md", "simulator.md"}
LONG |= {"sweeps.md"}
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
PAGES = [page for page in PAGES if page.parent.name != "generated"]  # by the site
FIGURES = sorted((ROOT / "benchmarks").rglob("README.md"))
WITH_CODE = [page for page in PAGES if python_blocks(page.read_text(encoding="utf-8"))]


def run_apart(script: Path, folder: Path) -> None:
    """Run a script in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def policy_rows() -> list[str]:
    rows = policy_table().head(len(POLICY_NAMES)).itertuples(index=False)
    return [f"| `{row.name}` | {row.problem} | {row.source} |" for row in rows]


def script_of(page: Path, folder: Path) -> Path:
    script = folder / "page.py"
    script.write_text("\n\n".join(python_blocks(page.read_text(encoding="utf-8"))))
    return script


@pytest.mark.usefixtures("own_registry")
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(each, id=each.name, marks=[pytest.mark.thorough] if each.name in LONG else [])
        for each in WITH_CODE
        if each.name not in APART
    ],
)
def test_the_code_of_a_page_runs_from_top_to_bottom(page: Path, tmp_path: Path) -> None:
    script = script_of(page, tmp_path)
    if page.name == "sweeps.md":  # with fewer jobs
        text = script.read_text()
        assert '"jobs": 30,' in text
        script.write_text(text.replace('"jobs": 30,', '"jobs": 6,'))
    run_script(script, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [each for each in WITH_CODE if each.name in APART], ids=lambda page: page.name
)
def test_the_code_of_a_page_runs_in_a_process_of_its_own(page: Path, tmp_path: Path) -> None:
    script = script_of(page, tmp_path)
    # Parts that a script defines must be there in its worker processes as well.
    script.write_text(script.read_text().replace("n_jobs=1", "n_jobs=2"))
    run_apart(script, tmp_path)


def test_pages_have_code() -> None:
    assert {"README.md", "CONTRIBUTING.md", "design.md", "simulator.md"} <= {
        page.name for page in WITH_CODE
    }


def test_every_block_that_something_prints_is_printed_again() -> None:
    texts = [page.read_text(encoding="utf-8") for page in PAGES]
    marked = re.findall(r"<!-- printed by: (.*) -->\n```text", "\n".join(texts))
    assert sorted(marked) == sorted(PRINTED)
    in_readme = [name for name, (page, _) in PRINTED.items() if page == "README"]
    assert len(in_readme) == README.count("```text"), "a block of text that nothing prints"


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=[pytest.mark.slow] if each in SLOW else []) for each in PRINTED],
)
def test_pages_say_what_is_printed(name: str, tmp_path: Path) -> None:
    page, print_again = PRINTED[name]
    text = PRINTED_ON[page].read_text(encoding="utf-8")
    printed = print_again(text, tmp_path)
    assert compared(printed) == compared(block(text, name)), (
        "python -m benchmarks.readme --write brings the pages up to date"
    )


def test_seconds_alone_are_left_out_of_the_comparison() -> None:
    printed = block(README, FIRST)
    slower = re.sub(r"policies in \d+ s", "policies in 345 s", printed)
    slower = re.sub(r"^(\w+ .*) [\d.]+$", r"\1 1,234.5", slower, flags=re.M)
    assert slower != printed
    assert compared(slower) == compared(printed)
    changed = printed.replace("finish_time_fairness ", "finish_time_fairness 1")
    assert compared(changed) != compared(printed)
    assert compared(printed.replace("seed 0", "seed 1")) != compared(printed)
    another = with_block(README, FIRST, changed)
    assert block(another, FIRST) == changed
    assert block(another, "solve") == block(README, "solve")


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run(example: Path, tmp_path: Path) -> None:
    assert len(run_script(example, tmp_path).out.splitlines()) > 5


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 6


def test_the_parts_of_the_example_of_all_are_those_of_the_page() -> None:
    text = (ROOT / "examples" / "own_everything.py").read_text(encoding="utf-8")
    parts = text[text.index("@dataclass") : text.index("throughputs = ")].strip()
    assert parts in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_a_table_lists_the_built_in_policies() -> None:
    text = (ROOT / "docs" / "reference" / "policies.md").read_text(encoding="utf-8")
    table = text.split("<!-- policies -->")[1].split("<!-- end of policies -->")[0]
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    assert rows == policy_rows(), "the table should be:\n" + "\n".join(policy_rows())


def test_the_definitions_name_every_built_in_policy() -> None:
    text = (ROOT / "docs" / "reference" / "policies.md").read_text(encoding="utf-8")
    missing = [name for name in POLICY_NAMES if f"`{name}`" not in text]
    assert not missing


@pytest.mark.parametrize("name", POLICY_NAMES)
def test_the_definition_of_a_policy_is_the_formula_of_its_docstring(name: str) -> None:
    text = cleandoc(type(get_policy(name)).__doc__ or "")
    formula = " ".join(text.split(".. math::")[1].split("\n\n")[0].split())
    assert formula.count("{") == formula.count("}")
    assert "|" not in formula  # or a table would end its cell there
    page = (ROOT / "docs" / "reference" / "policies.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith(f"| `{name}` | $`")]
    assert [row.split("$`")[1].split("`$")[0] for row in rows] == [formula]


@pytest.mark.parametrize(
    "page", [*PAGES, *FIGURES], ids=lambda path: f"{path.parent.name}-{path.name}"
)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8"))
    local = [target for target in targets if "://" not in target]
    assert [target for target in local if not (page.parent / target).exists()] == []


def headings(page: Path) -> set[str]:
    """Give what a link may name behind #: the headings of a page, as GitHub writes them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    named = (found.lower() for found in re.findall(r"^#+ (.*)$", text, flags=re.M))
    return {re.sub(r"[^\w\- ]", "", name).replace(" ", "-") for name in named}


@pytest.mark.parametrize(
    "page", [*PAGES, *FIGURES], ids=lambda path: f"{path.parent.name}-{path.name}"
)
def test_links_name_headings_that_are_there(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text(encoding="utf-8"))
    wrong = [
        f"{target}#{heading}"
        for target, heading in links
        if heading not in headings((page.parent / target) if target else page)
    ]
    assert wrong == []


def test_benchmarks_that_pages_name_are_there() -> None:
    pages = [*PAGES, *FIGURES, ROOT / "CHANGELOG.md"]
    named = {
        name
        for page in pages
        for name in re.findall(r"\bbenchmarks((?:\.\w+)+)(?!\w)", page.read_text(encoding="utf-8"))
    }
    files = [ROOT / "benchmarks" / name.removeprefix(".").replace(".", "/") for name in named]
    assert [file for file in files if not (file.is_dir() or file.with_suffix(".py").exists())] == []


GLOSSARY = (ROOT / "docs" / "background" / "glossary.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", re.findall(r"\| `(apportion\.[\w.:]+)` \|$", GLOSSARY, re.M))
def test_the_words_of_the_glossary_are_those_of_the_code(name: str) -> None:
    assert pkgutil.resolve_name(name) is not None


def test_the_glossary_names_mechanisms_and_the_columns_of_a_run() -> None:
    words = set(re.findall(r"`(\w+)`", GLOSSARY))
    built_in = {n for n, each in MECHANISMS.items() if each.__module__.startswith("apportion.")}
    assert len(built_in) == 6
    assert words >= built_in
    run = ap.simulate("fifo", *drawn("types", jobs="few"))
    own = {"job_type", "entity"}
    assert set(run.jobs.columns) - {f"{name}_s" for name in run.cluster.gpus} - own <= words


def test_the_citation_names_the_version_that_is_installed() -> None:
    version = re.search(r'"(.+)"', (ROOT / "src/apportion/_version.py").read_text().split("=")[1])
    assert version is not None
    assert f"version: {version[1]}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
