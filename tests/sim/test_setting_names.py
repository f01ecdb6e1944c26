"""The settings of `simulate` and the names that type checkers see are those that there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_type_hints

import pytest

from apportion.mechanisms import MECHANISMS
from apportion.mechanisms.setting_names import SimulationSettings
from apportion.mechanisms.settings import Setting, settings_of

if TYPE_CHECKING:
    from pathlib import Path

BELIEFS = {"speeds", "references", "optimism", "rows"}

CALLS = """
import apportion as ap
import apportion.sim.network

load = ap.generate_workload(jobs=2)
ap.simulate("fifo", load, "v100=2", round_secnds=60)
ap.simulate("fifo", load, "v100=2", round_seconds="60")
ap.compare(["fifo"], load, "v100=2", leese_seconds=60)
ap.sweep(["fifo"], load, "v100=2", machanism="leases")
ap.simulate("fifo", load, "v100=2", round_seconds=60, speeds="estimated", references=12)
ap.sweep(["fifo"], load, "v100=2", mechanism="leases", lease_seconds=60)
ap.simulat("fifo", load, "v100=2")
ap.simulate("fifo", load, "v100=2").jbos
apportion.sim.network.get_netwrk("none", cluster="v100=2")
apportion.sim.network.get_network("none", cluster=ap.Cluster.of("v100=2"))
problem: ap.Problem
"""
WRONG = {6, 7, 8, 9, 12, 13, 14}


def settings() -> list[Setting]:
    return [each for kind in MECHANISMS.values() for each in settings_of(kind)]


def test_every_setting_has_its_type_and_there_are_no_others() -> None:
    assert set(SimulationSettings.__annotations__) == {each.name for each in settings()} | BELIEFS


def test_a_setting_takes_what_its_mechanism_takes() -> None:
    hints = {name: str(kind) for name, kind in get_type_hints(SimulationSettings).items()}
    for each in settings():
        for word in ("float", "bool", "str", "Mapping"):
            assert (word in each.kind) == (word in hints[each.name]), each


@pytest.mark.slow
def test_a_type_checker_finds_misspelt_names(tmp_path: Path) -> None:
    api = pytest.importorskip("mypy.api", reason="mypy is not installed")
    file = tmp_path / "calls.py"
    file.write_text(CALLS)
    told, _, _ = api.run(["--ignore-missing-imports", "--follow-imports=silent", str(file)])
    assert {int(line.split(":")[1]) for line in told.splitlines() if " error: " in line} == WRONG
