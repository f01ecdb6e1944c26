"""Runs of iterations that are stopped anywhere, within a stretch too, end the same."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.seeds import sampled
from tests.sim.stopping.stops import assert_equal, stopped_after

import apportion as ap
from apportion.mechanism.gates import TimeShift
from apportion.sim.contention import FairSharing, PlainEngine

if TYPE_CHECKING:
    from pathlib import Path

CLUSTER = ap.Cluster({"v100": 32}, gpus_per_machine=4)
SHIFTS = {job: (0.01 * job, 0.5) for job in range(0, 24, 2)}
CASES: dict[str, dict[str, Any]] = {
    "ada_dual": {"gate": "ada_dual"},
    "shifted": {"gate": TimeShift(SHIFTS), "overlap": True},
    "random": {"gate": "rollout", "placement": "random", "seed": 3, "rack_links": True},
    "fair": {"gate": "always", "sharing": FairSharing((1e9,) * 8), "exclusive": True},
}


def workload() -> ap.Workload:
    drawn = ap.generate_contended_workload(seed=1, scale=0.003)
    return ap.Workload("few", drawn.jobs.iloc[:24], drawn.throughputs)


@pytest.mark.parametrize("case", sampled(CASES, 2))
def test_a_run_that_was_killed_ends_the_same(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {**CASES[case], "timeline": True}
    run = partial(ap.simulate, "ada_srsf", workload(), CLUSTER, **settings)
    whole = run()
    monkeypatch.setattr(PlainEngine, "at_once", 37)
    steps = np.random.default_rng(0).integers(2, 25, 8).tolist()
    assert_equal(whole, stopped_after(run, tmp_path / "state.json", steps))
    assert not (tmp_path / "state.json").exists()
