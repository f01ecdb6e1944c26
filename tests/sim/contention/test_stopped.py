"""Runs of iterations that are stopped anywhere, within a stretch too, end the same."""

from __future__ import annotations

from functools import partialmethod
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from tests.seeds import sampled

import apportion as ap
from apportion.errors import InputError
from apportion.mechanism.gates import TimeShift
from apportion.sim.contention import FairSharing, PlainEngine, choice
from apportion.sim.contention.fast import FastEngine
from apportion.sim.contention.jit import compiled
from apportion.sim.engine.snapshot import Snapshots

if TYPE_CHECKING:
    from pathlib import Path

CLUSTER = ap.Cluster({"v100": 32}, gpus_per_machine=4)
SHIFTS = {job: (0.01 * job, 0.5) for job in range(0, 24, 2)}
CASES: dict[str, dict[str, Any]] = {
    "ada_dual": {"gate": "ada_dual"},
    "shifted": {"gate": TimeShift(SHIFTS), "overlap": True},
    "random": {"gate": "what_if", "placement": "random", "seed": 3, "rack_links": True},
    "fair": {"gate": "always", "sharing": FairSharing((1e9,) * 8), "exclusive": True},
}
ENGINES = ["plain", pytest.param("fast", marks=pytest.mark.skipif(not compiled, reason="numba"))]


class Stopped(Exception):
    """The process is killed."""


def workload() -> ap.Workload:
    drawn = ap.generate_contended_workload(seed=1, scale=0.003)
    return ap.Workload("few", drawn.jobs.iloc[:24], drawn.throughputs)


def stopped(
    path: Path, monkeypatch: pytest.MonkeyPatch, most: int, **settings: Any
) -> tuple[ap.Run, int]:
    """Run it, killed after a few steps each time, at most so often; return it and the kills."""
    rng, write, kills, left = np.random.default_rng(0), Snapshots.write, 0, 0

    def note(snapshots: Snapshots, *where: Any) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            write(snapshots, *where)
            raise Stopped

    with monkeypatch.context() as patched:
        patched.setattr(Snapshots, "note", note)
        while True:
            left = int(rng.integers(2, 25)) if kills < most else -1
            try:
                run = ap.simulate("ada_srsf", workload(), CLUSTER, snapshot=path, **settings)
            except Stopped:
                kills += 1
            else:
                return run, kills


def assert_equal(one: ap.Run, other: ap.Run) -> None:
    pd.testing.assert_frame_equal(one.jobs, other.jobs, check_exact=True)
    pd.testing.assert_frame_equal(one.rounds, other.rounds, check_exact=True)
    for name, table in one.tables.items():
        pd.testing.assert_frame_equal(table, other.tables[name], check_exact=True)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", sampled(CASES, 2))
def test_a_run_that_was_killed_ends_the_same(
    case: str, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {**CASES[case], "engine": engine, "timeline": engine == "plain"}
    whole = ap.simulate("ada_srsf", workload(), CLUSTER, **settings)
    monkeypatch.setattr(PlainEngine, "at_once", 37)
    monkeypatch.setattr(FastEngine, "at_once", 41)
    killed, kills = stopped(tmp_path / "state.json", monkeypatch, 8, **settings)
    assert kills == 8
    assert_equal(whole, killed)
    assert not (tmp_path / "state.json").exists()


def only(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `"auto"` choose this engine: another machine may have no numba."""
    found = "" if engine == "fast" else "numba is not there"
    monkeypatch.setattr(choice, "why_not_fast", lambda sharing, gate: found)
    monkeypatch.setattr(choice, "_pays", lambda events, gate: True)
    monkeypatch.setattr(choice, "_is_bought", lambda events, gate: True)


def stop_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Snapshots, "drop", _stop)
        patched.setattr(Snapshots, "__init__", partialmethod(_often, Snapshots.__init__))
        with pytest.raises(Stopped):
            ap.simulate("ada_srsf", workload(), CLUSTER, snapshot=path)
    assert path.exists()


def _often(snapshots: Snapshots, init: Any, path: Path, call: Any, seconds: float) -> None:
    init(snapshots, path, call, 0.0)


def _stop(snapshots: Snapshots) -> None:
    raise Stopped


@pytest.mark.skipif(not compiled, reason="numba")
def test_a_run_goes_on_with_the_engine_with_which_it_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state.json"
    only("plain", monkeypatch)
    whole = ap.simulate("ada_srsf", workload(), CLUSTER)
    stop_once(path, monkeypatch)
    only("fast", monkeypatch)
    run = ap.simulate("ada_srsf", workload(), CLUSTER, snapshot=path)
    assert run.tables["engine"]["engine"].item() == "PlainEngine"
    assert_equal(whole, run)
    stop_once(path, monkeypatch)
    only("plain", monkeypatch)
    with pytest.raises(InputError, match="numba is not there;") as found:
        ap.simulate("ada_srsf", workload(), CLUSTER, snapshot=path)
    assert "state of the run is that of the compiled engine" in found.value.__notes__[0]
