"""Schedulers, orders and mechanisms of one's own in one round."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import apportion as ap
from apportion.mechanism.placements import Gang
from apportion.mechanism.scheduler import Decision

if TYPE_CHECKING:
    from apportion.mechanism.decider import About
    from apportion.mechanism.scheduler import Event
    from apportion.mechanisms.past import Past

SPEED = {job: {"v100": 1.0} for job in "abc"}


class NobodyStops:
    """First come, first served, until a job is done."""

    name = "nobody_stops"

    def start(self, about: About) -> None:
        self.jobs, self.devices = about.jobs, about.devices
        self.waiting: list[int] = []

    def decide(self, event: Event) -> Decision:
        self.waiting += event.arrived.tolist()
        new = [job for job in self.waiting if self.place(job)]
        here = np.array(sorted(self.devices.held), dtype=int)
        return Decision(self.devices.gangs(here), starts=np.isin(here, new))

    def place(self, job: int) -> bool:
        gang = Gang(job, int(self.jobs.scale[job]), 0)
        return self.devices.give(gang) is not None


class TakesOver(NobodyStops):
    """The same, which hears who runs already."""

    def take_over(self, past: Past) -> None:
        self.waiting = [job for job in self.jobs.active.tolist() if job not in past.held]


class StopsB(TakesOver):
    """Stops the job of number 1, and gives its devices to nobody."""

    def decide(self, event: Event) -> Decision:
        self.devices.release([1])
        here = np.array(sorted(self.devices.held), dtype=int)
        return Decision(self.devices.gangs(here), np.zeros(here.size, dtype=bool))


def test_a_scheduler_of_ones_own() -> None:
    found = ap.solve_round(NobodyStops(), SPEED, "v100=2", jobs={"elapsed_s": [1.0, 3.0, 2.0]})
    assert found.running == {"b": ("v100", (0,)), "c": ("v100", (1,))}
    assert (found.waiting, found.policy, found.allocation) == (("a",), "nobody_stops", None)
    running = {"b": ("v100", [1])}
    with pytest.raises(ap.InputError, match=r"'nobody_stops' has no take_over\(past\)"):
        ap.solve_round(NobodyStops(), SPEED, "v100=2", running=running)
    found = ap.solve_round(TakesOver(), SPEED, "v100=2", running=running)
    assert found.table()["status"].to_dict() == {"a": "started", "b": "extended", "c": "waiting"}
    assert found.running["a"] == ("v100", (0,))
    stopped = ap.solve_round(StopsB(), SPEED, "v100=2", running=running)
    assert (stopped.plan.preempted, stopped.waiting) == (("b",), ("a", "c"))


def test_what_cannot_be_is_refused() -> None:
    class Twice(NobodyStops):
        def decide(self, event: Event) -> Decision:
            decision = super().decide(event)
            gangs = decision.gangs._replace(devices=[(0, [0])] * decision.gangs.job.size)
            return decision._replace(gangs=gangs)

    with pytest.raises(ap.InputError, match="gives device 0 of type 0 to two gangs"):
        ap.solve_round(Twice(), SPEED, "v100=2")

    class Restless(NobodyStops):
        def valid_for_s(self, now_s: float) -> float:
            return 0.0

    with pytest.raises(ap.InputError, match="decides 100 times for no time at all"):
        ap.solve_round(Restless(), SPEED, "v100=3")
