"""Runs of iterations that are stopped anywhere, within a stretch too, end the same."""

from __future__ import annotations

from functools import partial, partialmethod
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.seeds import sampled
from tests.sim.stopping.stops import Stopped, assert_equal, stopped_after

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


def workload() -> ap.Workload:
    drawn = ap.generate_contended_workload(seed=1, scale=0.003)
    return ap.Workload("few", drawn.jobs.iloc[:24], drawn.throughputs)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", sampled(CASES, 2))
def test_a_run_that_was_killed_ends_the_same(
    case: str, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {**CASES[case], "engine": engine, "timeline": engine == "plain"}
    run = partial(ap.simulate, "ada_srsf", workload(), CLUSTER, **settings)
    whole = run()
    monkeypatch.setattr(PlainEngine, "at_once", 37)
    monkeypatch.setattr(FastEngine, "at_once", 41)
    steps = np.random.default_rng(0).integers(2, 25, 8).tolist()
    assert_equal(whole, stopped_after(run, tmp_path / "state.json", steps))
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
