"""Which engine runs iterations, where nobody has said."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from apportion.cluster import Cluster
from apportion.mechanism.devices import Devices
from apportion.mechanism.gates import AtMost, WhatIf
from apportion.sim.contention import SharedCost, choice, jit
from apportion.sim.contention.choice import engine_for
from apportion.sim.contention.record import Timeline
from apportion.sim.contention.runtime import LinkMap

if TYPE_CHECKING:
    from apportion.mechanism.gates import Gate


def chosen(events: float, gate: Gate | None = None, timeline: Timeline | None = None) -> str:
    links = LinkMap(Devices.of(Cluster({"v100": 4}, gpus_per_machine=2)).layout)
    made = engine_for("auto", links, SharedCost(), gate or AtMost(1), timeline, events=events)
    return type(made).__name__


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    monkeypatch.setattr(jit, "is_kept", lambda entry: True)


@pytest.mark.usefixtures("kept")
def test_what_is_compiled_is_loaded_for_many_events_only() -> None:
    assert chosen(1e4) == "PlainEngine"
    assert chosen(1e6) == "FastEngine"
    assert chosen(5e4) == "PlainEngine"
    assert chosen(5e4, WhatIf()) == "FastEngine"  # simulates at each question
    assert chosen(1.0, AtMost(2)) == "FastEngine"  # its bytes hang on the engine
    assert chosen(1e9, timeline=Timeline()) == "PlainEngine"


def test_code_is_compiled_once_that_much_was_spent_without(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numba")
    monkeypatch.setattr(jit, "is_kept", lambda entry: False)
    monkeypatch.setattr(choice, "_plain_s", 0.0)
    found = [chosen(1e6) for _ in range(5)]
    assert found == ["PlainEngine"] * 3 + ["FastEngine"] * 2
    monkeypatch.setattr(choice, "_plain_s", 0.0)
    assert chosen(1e8) == "FastEngine"


def test_small_runs_import_no_numba() -> None:
    program = (
        "import sys, apportion as ap\n"
        "jobs = ap.generate_contended_workload(scale=0.001)\n"
        "ap.simulate('srsf_1', jobs, ap.Cluster({'v100': 64}, gpus_per_machine=4))\n"
        "print('numba' in sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout == "False\n"
