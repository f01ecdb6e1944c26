"""A job that makes iterations over links."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from apportion.checks import hashable, number, seconds
from apportion.errors import InputError, written
from apportion.mechanism.time_shifts import CommunicationProfile

if TYPE_CHECKING:
    from collections.abc import Hashable


@dataclass(frozen=True)
class PhaseJob:
    """A job that makes iterations over links.

    Attributes
    ----------
    profile
        What an iteration sends, and when if nobody is in its way.
    links
        Names of the links that it uses, each at the same rate; none within one server.
    start_s
        When its first iteration begins: its time shift, seconds.
    schedule_s
        Seconds from one iteration to the next by the schedule that drift is measured against;
        ``None`` for the period of the profile. On links that cannot carry everything iterations
        take longer, and their schedule must allow for it.
    priority
        Of its traffic: on every link those of a larger one send first, and others share what they
        leave, see `crux_priorities`. Jobs of one priority share links max-min fairly.
    held
        Whether it is paced by its schedule: a phase that would begin early waits for its time.
    """

    profile: CommunicationProfile
    links: tuple[Hashable, ...] = ()
    start_s: float = 0.0
    schedule_s: float | None = None
    priority: float = 0.0
    held: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.profile, CommunicationProfile):
            raise InputError(f"{written(self.profile)} is no CommunicationProfile.")
        where = f"of the job {self.profile.name!r}"
        object.__setattr__(self, "links", tuple(hashable(f"link {where}", self.links)))
        if len(set(self.links)) < len(self.links):
            raise InputError(f"The links {where} are {written(self.links)}; name each once.")
        seconds(f"The start {where}", self.start_s)
        if self.schedule_s is not None:
            seconds(f"The schedule {where}", self.schedule_s, strict=True)
        number(f"The priority {where}", self.priority, least=-math.inf)

    @property
    def paced_s(self) -> float:
        """Seconds from one iteration to the next by the schedule."""
        return self.profile.period_s if self.schedule_s is None else self.schedule_s
