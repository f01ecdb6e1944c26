"""Every placement under every mechanism, one of one's own included, from end to end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from tests.seeds import sampled

import apportion as ap
from apportion.mechanism import PLACEMENTS
from apportion.mechanism.placements import Gang, Strategy, register
from apportion.sim.network.cassini import CassiniNetwork

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from apportion.mechanism.devices import Devices

RACKS = ap.Cluster.of_racks(2, machines_per_rack=2, gpus_per_machine=4)
BUILT_IN = sorted(PLACEMENTS)
LINKS = CassiniNetwork(
    profiles={"ResNet18": ap.CommunicationProfile("ResNet18", 1.0, [(0.0, 0.5, 1.0)])}
)  # never more than a link carries, so that nobody is slowed down


class Hesitant(Strategy):
    """The highest numbers, and none for gangs of three GPUs before others hold some."""

    name = "hesitant"

    def choose(self, gang: Gang, devices: Devices) -> Sequence[int] | None:
        if gang.gpus == 3 and not devices.held:
            return None
        return devices.free_for(gang).free_devices[-gang.gpus :]


class Never(Strategy):
    """Nothing for anyone."""

    name = "never"

    def choose(self, gang: Gang, devices: Devices) -> Sequence[int] | None:
        return None


@pytest.fixture
def own() -> Iterator[None]:
    for each in (Hesitant, Never):
        register(each)
    yield
    for each in (Hesitant, Never):
        del PLACEMENTS[each.name]


def some_jobs(gangs: Sequence[int]) -> ap.Workload:
    size = sorted(set(gangs))
    index = pd.MultiIndex.from_arrays([["ResNet18"] * len(size), size])
    index.names = ["job_type", "scale_factor"]
    jobs = pd.DataFrame(
        {
            "job_type": "ResNet18",
            "scale_factor": gangs,
            "total_steps": np.linspace(2e3, 2e4, len(gangs)),
            "arrival_s": np.linspace(0, 4e3, len(gangs)).round(),
        },
        index=[f"job {k}" for k in range(len(gangs))],
    )
    return ap.Workload("some", jobs, pd.DataFrame(1.0, index, ["gpu"]))


MECHANISMS: list[tuple[str, str]] = [
    ("fifo", "rounds"),
    ("fifo", "leases"),
    ("dally", "leases"),
    ("gandiva", "leases"),
]


@pytest.mark.parametrize(
    ("decider", "mechanism", "placement"),
    sampled(
        [
            (*each, placement)
            for each in MECHANISMS
            for placement in [*BUILT_IN, "hesitant"]
            if each != ("fifo", "leases") or placement in ("random", "hesitant")  # others: dally
        ],
        3,
    ),
)
def test_every_placement_serves_every_mechanism(
    own: None, decider: str, mechanism: str, placement: str
) -> None:
    workload = some_jobs([1, 2, 3, 8, 4, 3, 1, 16, 2, 5])
    settings: dict[str, Any] = {"network": LINKS} if placement.startswith("cassini") else {}
    run = ap.simulate(
        decider, workload, RACKS, mechanism=mechanism, placement=placement, **settings
    )
    assert run.jobs["completion_s"].notna().all()
    ap.check_schedule(run, workload, RACKS, **settings)
    if placement == "hesitant":
        # Jobs of three GPUs begin only where others have some already.
        rows = run.schedule[run.schedule["devices"].map(len) == 3]
        for row in rows.groupby("job", sort=False).head(1).itertuples():
            beside = run.schedule[
                (run.schedule["start_s"] <= row.start_s)
                & (run.schedule["end_s"] > row.start_s)
                & (run.schedule["job"] != row.job)
            ]
            assert len(beside)


@pytest.mark.parametrize(("decider", "mechanism"), MECHANISMS)
def test_a_standstill_is_told(own: None, decider: str, mechanism: str) -> None:
    with pytest.raises(ap.SolveError, match=r"no job arrives later"):
        ap.simulate(decider, some_jobs([1, 2]), RACKS, mechanism=mechanism, placement="never")
