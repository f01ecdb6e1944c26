"""Gangs that stay where they are stay as fast: runs are the same if all are asked about anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

import apportion as ap
from apportion.sim.about import AboutRun
from apportion.sim.engine import Speeds
from apportion.testing import drawn

if TYPE_CHECKING:
    from apportion.mechanism.scheduler import Gangs
    from apportion.types import Bools, Floats


class AskedAnew(Speeds):
    """The speeds of others, of whom each line is asked about whenever gangs change."""

    apart = True

    def __init__(self, own: Speeds) -> None:
        assert own.lasting, own
        self._own = own

    def rates(self, gangs: Gangs, there: Bools | None = None) -> Floats:
        return self._own.rates(gangs, there)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("kind", "who", "how"),
    [
        ("racks", "dally", {"mechanism": "leases"}),
        ("racks", "max_min_fairness", {"mechanism": "leases"}),
        ("types", "max_min_fairness", {}),
        ("types", "max_min_fairness_space_sharing", {}),
        ("types", "fcfs", {}),
    ],
)
def test_only_those_that_come_are_asked_about(
    monkeypatch: pytest.MonkeyPatch, kind: str, who: str, how: dict[str, Any], seed: int
) -> None:
    workload, cluster = drawn(kind, seed)
    found, speeds = ap.simulate(who, workload, cluster, **how), AboutRun.speeds
    monkeypatch.setattr(AboutRun, "speeds", lambda about: AskedAnew(speeds(about)))
    anew = ap.simulate(who, workload, cluster, **how)
    for one, other in ((found.jobs, anew.jobs), (found.schedule, anew.schedule)):
        pd.testing.assert_frame_equal(one, other, check_exact=True)
