"""Who has which devices in a round, with labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable


@dataclass(frozen=True)
class Assignment:
    """One gang and its devices, for one round.

    Devices and machines are numbered from 0 within their accelerator type.
    """

    job: Hashable
    accelerator: str
    machines: tuple[int, ...]
    devices: tuple[int, ...]


@dataclass(frozen=True)
class RoundPlan:
    """The gangs of a round.

    Parameters
    ----------
    assignments
        The gangs, those with the highest priority first.
    started
        Jobs that did not run in the round before.
    moved
        Jobs that run on, on other devices.
    preempted
        Jobs that ran in the round before and wait in this one.
    """

    assignments: tuple[Assignment, ...]
    started: tuple[Hashable, ...]
    moved: tuple[Hashable, ...]
    preempted: tuple[Hashable, ...]

    @property
    def jobs(self) -> tuple[Hashable, ...]:
        """Every job that runs in the round."""
        return tuple(gang.job for gang in self.assignments)

    @property
    def extended(self) -> tuple[Hashable, ...]:
        """Jobs whose lease is extended: they run on, on the same devices."""
        changed = {*self.started, *self.moved}
        return tuple(job for job in self.jobs if job not in changed)
