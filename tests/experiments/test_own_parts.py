"""What a script registers, in worker processes: the results are those of one process."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

import apportion as ap
from apportion.experiments.machine.own_parts import OwnParts
from apportion.mechanism.placements import Strategy
from apportion.mechanism.placements.registry import PLACEMENTS
from apportion.sim.network.registry import NETWORKS
from apportion.sim.traces.assemble import from_durations
from apportion.sim.traces.read import TRACE_FORMATS, TraceFormat
from apportion.sim.traces.table import parse_table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SETTINGS: dict[str, Any] = {"mechanism": "rounds", "placement": "last_ones", "network": "slow"}


@pytest.fixture
def own_parts() -> Iterator[None]:
    class LastOnes(Strategy):
        """The devices of highest number."""

        name = "last_ones"

        def choose(self, gang: Any, devices: Any) -> Any:
            free = devices.free_for(gang)
            numbers = sorted(one for each in free.emptiest_first() for one in free.free_on(each))
            return numbers[-gang.gpus :] if len(numbers) >= gang.gpus else None

    class Slow:
        """Three times the time, wherever a gang is."""

        name = "slow"

        def overhead(self, job_type: str, shape: Any) -> float:
            return 2.0

    def read_queue(file: Any, options: Any) -> Any:
        table = parse_table(file)
        jobs = pd.DataFrame({"arrival_s": table.numbers("at"), "duration_s": table.numbers("ran")})
        return from_durations(file, jobs.assign(scale_factor=1).reset_index(drop=True), options)

    PLACEMENTS["last_ones"] = LastOnes
    NETWORKS["slow"] = lambda _profiles: Slow()
    TRACE_FORMATS["queue"] = TraceFormat("a queue", ("at", "ran"), read_queue)
    yield
    del PLACEMENTS["last_ones"], NETWORKS["slow"], TRACE_FORMATS["queue"]


@pytest.mark.usefixtures("own_parts")
def test_workers_know_what_a_script_has_registered(tmp_path: Path) -> None:
    trace = tmp_path / "queue.csv"
    trace.write_text("at,ran\n0,4000\n50,900\n700,2000\n")
    racks = ap.Cluster.of_racks(1, machines_per_rack=2, gpus_per_machine=1, accelerator="v100")
    here, there = (
        ap.sweep(["fifo", "max_min_fairness"], trace, racks, n_jobs=n_jobs, **SETTINGS)
        for n_jobs in (1, 2)
    )
    assert here.errors().empty
    assert there.errors().empty
    figures = ["policy", "mean_jct_s", "makespan_s"]
    pd.testing.assert_frame_equal(here.table()[figures], there.table()[figures])


@pytest.mark.usefixtures("own_parts")
def test_parts_of_another_process_take_the_place_of_those_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent = replace(OwnParts.of_here(), home="elsewhere")
    before = NETWORKS["slow"]
    OwnParts.of_here().take_in()  # of this very process: nothing is replaced
    assert NETWORKS["slow"] is before
    NETWORKS["later"] = before
    sent.take_in()
    assert "later" not in NETWORKS
    assert NETWORKS["slow"] is not before
    assert NETWORKS["slow"]({}).overhead("any", ((1,),)) == 2.0
    assert "table1" in NETWORKS


class _Locked:
    """Makes no network, and cannot be sent."""

    def __init__(self, lock: Any) -> None:
        self.lock = lock

    def __call__(self, profiles: Any) -> Any:
        raise NotImplementedError


def test_what_cannot_be_sent_stays_here() -> None:
    lock = threading.Lock()
    NETWORKS["locked"] = _Locked(lock)
    try:
        assert "locked" not in {name for _, name, _ in OwnParts.of_here().parts}
    finally:
        del NETWORKS["locked"]
