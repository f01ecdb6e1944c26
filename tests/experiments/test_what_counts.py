"""What makes a stored run another one: code of one's own, its values, files, settings, jobs."""

from __future__ import annotations

import importlib
import logging
import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import apportion as ap
from apportion.mechanism.placements.registry import PLACEMENTS
from apportion.registry import Registry
from apportion.sim import fingerprint
from apportion.sim.fingerprint import content

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LOAD = ap.generate_workload(jobs=2, seed=0)

POLICY = """
from dataclasses import dataclass
from typing import Any
import cvxpy as cp
import apportion as ap
{imports}
RATE = 1.0
def scaled(p):
    return RATE * p.throughput
@dataclass(frozen=True)
class Mine(ap.Policy):
    name = "mine"
    heterogeneity_aware: bool = True
    held: Any = None
    extra = 0
    def objective(self, p):
        {inside}
        return cp.Maximize(p.total(scaled(p)))
"""


def written(imports: str = "", inside: str = "pass") -> str:
    return POLICY.format(imports=imports, inside=inside)


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Write files of one's own, and import the first as a process of its own would."""
    folder = tmp_path / "own"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)

    def forget() -> None:
        for name in set(sys.modules) - before:
            if str(getattr(sys.modules[name], "__file__", None)).startswith(str(folder)):
                del sys.modules[name]

    def load(name: str, **files: str) -> Any:
        forget()
        for file, text in files.items():
            path = folder / (file.replace("_in_", "/") + ".py")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        importlib.invalidate_caches()
        return importlib.import_module(name)

    yield load
    forget()


def resumed(policies: list[Any], load: Any = LOAD, cluster: Any = "v100=2", **more: Any) -> int:
    """Return how many runs of a sweep were there already."""
    swept = ap.sweep(policies, load, cluster, n_jobs=1, out="out", progress=False, **more)
    assert swept.failure() is None
    return int(swept.resumed)


@pytest.mark.thorough
def test_an_edit_of_a_policy_runs_it_anew_and_others_not(load: Callable[..., Any]) -> None:
    assert resumed([load("rule", rule=written()).Mine(), "fifo"]) == 0
    assert resumed([load("rule", rule=written() + "LATER = 1\n").Mine(), "fifo"]) == 1
    assert resumed([load("rule", rule=written()).Mine(), "fifo"]) == 2


IMPORTS = {
    "module": ("rule", "import helper", "pass", "helper"),
    "name": ("rule", "from helper import x", "pass", "helper"),
    "when it is called": ("rule", "", "import helper", "helper"),
    "by another": ("rule", "import between", "pass", "helper"),
    "of a package": ("mine.rule", "from . import helper", "pass", "mine_in_helper"),
    "around it": ("mine.rule", "", "pass", "mine_in___init__"),
}


@pytest.mark.parametrize("kind", IMPORTS)
def test_an_edit_of_what_it_imports_runs_it_anew(kind: str, load: Callable[..., Any]) -> None:
    name, imports, inside, edited = IMPORTS[kind]
    files = {"between": "import helper", "mine_in___init__": "", "other": "y = 1"}
    files |= {"helper": "", name.replace(".", "_in_"): written(imports, inside), edited: "x = 1"}
    before = content(load(name, **files).Mine())
    assert content(load(name, **files, unused="y = 2").Mine()) == before
    assert content(load(name, **files | {edited: "x = 2"}).Mine()) != before
    assert content(load(name, **files).Mine()) == before


def test_what_runs_is_what_was_imported(load: Callable[..., Any]) -> None:
    module = load("rule", rule=written())
    before = content(module.Mine())
    Path("rule.py").write_text(written() + "LATER = 1\n")
    assert content(module.Mine()) == before
    assert content(importlib.reload(module).Mine()) != before


def local(module: Any, rate: float) -> Any:
    class Local(module.Mine):  # type: ignore[misc]
        def objective(self, p: Any) -> Any:
            assert rate
            return super().objective(p)

    return Local()


def with_values(module: Any, **values: Any) -> Any:
    for name, value in values.items():
        setattr(module.Mine if name == "extra" else module, name, value)
    return module.Mine()


@pytest.mark.parametrize(
    "made",
    [
        lambda module, n: module.Mine(held=n),
        lambda module, n: module.Mine(held={"a": [n, {"b", "c"}]}),
        lambda module, n: module.Mine(held={"a": np.arange(3) + n}),
        lambda module, n: module.Mine(held=lambda x: x + n),
        lambda module, n: local(module, 1.0 + n),
        lambda module, n: with_values(module, extra=n),
        lambda module, n: with_values(module, RATE=1.0 + n),
    ],
)
def test_values_of_a_policy_and_of_its_module_count(made: Any, load: Callable[..., Any]) -> None:
    found = [content(made(load("rule", rule=written()), n)) for n in (1, 2, 1)]
    assert found[0] == found[2] != found[1]


@pytest.mark.thorough
@pytest.mark.usefixtures("load")
def test_another_setting_cluster_or_workload_is_another_run() -> None:
    other = replace(LOAD, jobs=LOAD.jobs.assign(weight=2.0))
    renamed = replace(LOAD, notes=("told",))
    assert resumed(["fifo"]) == 0
    assert resumed(["fifo"], renamed) == 1
    assert resumed(["fifo"], other) == 0
    assert resumed(["fifo"], cluster="v100=3") == 0
    assert resumed(["fifo"], round_seconds=60.0) == 0
    assert resumed(["fifo"], seeds=[0, 1]) == 1


def test_a_file_counts_by_what_it_holds_where_it_is_named(load: Callable[..., Any]) -> None:
    found = []
    for text in ("a\n1\n", "a\n1\n", "a\n2\n"):
        Path("rates.csv").write_text(text)
        module = load("rule", rule=written(), named=written(inside="open('rates.csv').close()"))
        parts = [module.Mine(held="rates.csv"), module.Mine(held=Path("rates.csv"))]
        parts += [module.Mine(held="read(rates.csv)"), load("named").Mine()]
        found.append([content(part) for part in parts])
    assert found[0] == found[1]
    assert not {*found[0]} & {*found[2]}


def test_a_part_counts_where_a_setting_names_it(load: Callable[..., Any]) -> None:
    text = "from apportion.mechanism.placements import Strategy\nclass Own(Strategy):\n"
    text += "    name = 'own_placement'\n    def choose(self, gang, devices):\n        return {}\n"
    found = []
    for number in (1, 2, 1):
        PLACEMENTS["own_placement"] = load("place", place=text.format(number)).Own
        found.append((content({"placement": "own_placement"}), content({"placement": "packed"})))
        del PLACEMENTS["own_placement"]
    assert found[0] == found[2]
    assert found[0][0] != found[1][0]
    assert found[0][1] == found[1][1]


@pytest.mark.parametrize("kind", ["typed in", "holds a lock"])
def test_what_nobody_can_tell_runs_anew_and_is_said_once(
    kind: str,
    load: Callable[..., Any],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fingerprint, "_SAID", set[str]())
    space: dict[str, Any] = {"__name__": "typed_in"}
    exec(compile(written(), "<cell>", "exec", dont_inherit=True), space)
    lock = load("rule", rule=written()).Mine(held=threading.Lock())
    with caplog.at_level(logging.WARNING):
        policy = space["Mine"]() if kind == "typed in" else lock
        assert content(policy) != content(policy)
    lines = [line for line in caplog.messages if "as it was" in line]
    assert len(lines) == 1
    assert lines[0].startswith("Nobody can tell whether Mine(")


def test_all_that_comes_with_the_package_can_be_told(caplog: pytest.LogCaptureFixture) -> None:
    parts = [part for registry in Registry.all.values() for part in registry.values()]
    assert [content(part) for part in parts] == [content(part) for part in parts]
    policies = [ap.get_policy(name) for name in ap.policy_table()["name"]]
    assert len({content(each) for each in policies}) == len(policies)
    assert not caplog.messages


SCRIPT = """
import sys
RATE = float(sys.argv[1])
from apportion.sim.fingerprint import content
print(content(Mine(held={"a", "b", "c", "d"})))
"""


@pytest.mark.thorough
def test_a_script_has_the_same_key_in_another_process(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(written() + SCRIPT)
    path = ":".join(filter(None, sys.path))
    marks = [
        subprocess.run(
            [sys.executable, "script.py", "2"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert marks[0] == marks[1] != b""
