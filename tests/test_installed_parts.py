"""The package under examples/example_parts: a part of each kind, found by its name wherever."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from apportion.registry import Registry

SCRIPT = Path(__file__).with_name("using_parts.py")
EXAMPLE = Path(__file__).parents[1] / "examples" / "example_parts"
PROJECT = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
HOUR_S = 3600.0
START_S = 30.0
"""What a start costs a model that nobody measured."""


def said_by(home: Path, *ways: str) -> tuple[dict[str, Any], str]:
    """Return what a process says that has the package on its path, and all that it prints."""
    folder = home / "work"
    folder.mkdir()
    path = os.pathsep.join([str(home), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    done = subprocess.run(
        [sys.executable, "-W", "error", str(SCRIPT), *ways],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said, done.stdout


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What is said beside the metadata that installers write."""
    home = tmp_path_factory.mktemp("site")
    shutil.copy(EXAMPLE / "apportion_example_parts.py", home)
    about = home / "apportion_example_parts-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: apportion-example-parts\n")
    lines = []
    for group, entries in PROJECT["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in entries.items())]
    (about / "entry_points.txt").write_text("\n".join(lines))
    return said_by(home)[0]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("policies", [[HOUR_S + START_S] * 2] * 2),
        ("deciders: a queue", [[2 * (HOUR_S + START_S), HOUR_S + START_S]]),
        ("deciders: offers", [[HOUR_S + START_S, 2 * (HOUR_S + START_S)]]),
        ("mechanisms", [[HOUR_S, 2 * HOUR_S]]),
        ("its setting", [[2 * HOUR_S - 600.0, 2 * HOUR_S]]),  # in turns of ten minutes
        ("networks", [[1.5 * HOUR_S + START_S, 3 * HOUR_S + 2 * START_S]]),
        ("placements devices", ["(6, 7)", "(4, 5)"]),
        ("the trace", [[0.0, 150.0], [1, 4]]),
        # The next round begins 210 s later; the first start of a log's job is in its duration.
        ("trace_formats", [[5400.0, 1800.0 + 210.0]]),
    ],
)
def test_a_part_of_an_installed_package_is_used_by_its_name(
    found: dict[str, Any], kind: str, expected: object
) -> None:
    assert found[kind] == expected


def test_parts_change_what_they_are_there_to_change(found: dict[str, Any]) -> None:
    usual, srsf = found["trained_models"]
    assert found["orders"] != [srsf]
    assert found["gates"] != [usual]
    assert found["deciders: a rule"][0] != found["deciders: a rule"][1]


def test_the_example_has_a_part_for_every_group() -> None:
    groups = {group for group in Registry.all if group.startswith("apportion.")}
    assert groups <= PROJECT["entry-points"].keys()


def test_the_page_on_parts_shows_the_example() -> None:
    page = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text()
    rows = {line.split("`")[1] for line in page.splitlines() if re.match(r"\| .* \| `app", line)}
    assert rows == PROJECT["entry-points"].keys()
    (shown,) = re.findall("```toml\n(.*?)```", page, flags=re.DOTALL)
    told = tomllib.loads(shown)["project"]
    assert told["name"] == PROJECT["name"]
    for group, entries in told["entry-points"].items():
        assert entries.items() <= PROJECT["entry-points"][group].items()


@pytest.mark.slow
def test_commands_and_workers_find_what_pip_installs(tmp_path: Path) -> None:
    copied = shutil.copytree(EXAMPLE, tmp_path / "source")
    words = ["install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    target = ["--target", str(tmp_path / "site"), str(copied)]
    subprocess.run([sys.executable, "-m", "pip", *words, *target], check=True)
    found, printed = said_by(tmp_path / "site", "workers", "command")
    assert found["networks"] == [[1.5 * HOUR_S + START_S, 3 * HOUR_S + 2 * START_S]]
    for name in ("example_total", "example_queue", "example_offers", "example_rule", "tea_seconds"):
        assert name in printed
