"""Who has which devices, and what each job has had of them and is owed of its shares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apportion.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping


class Accounts:
    """Devices by job since the last decision about them, and seconds that add up in between.

    Attributes
    ----------
    facts
        Columns of the jobs table by job: who is here.
    running
        Accelerator and numbers of devices by job, as the last decision about devices gave them.
    since_s
        When it was last worked out what a job has had and is owed, s.
    shares
        Shares of time of the last decision about devices, by job and accelerator.
    lost
        Jobs whose devices have gone since then.
    now_s
        Time of the last message, s.
    own_clock
        Whether messages go by the clock of the service; None before the first one.
    """

    def __init__(self) -> None:
        self.facts: dict[str, dict[str, Any]] = {}
        self.running: dict[str, tuple[str, tuple[int, ...]]] = {}
        self.since_s: dict[str, float] = {}
        self.shares: dict[str, dict[str, float]] = {}
        self.lost: list[str] = []
        self._received: dict[str, dict[str, float]] = {}
        self._owed: dict[str, dict[str, float]] = {}
        self.now_s = 0.0
        self.own_clock: bool | None = None

    def time_of(self, at_s: float | None, clock_s: float) -> float:
        """Return the time of a message; whether messages tell theirs, the first one has decided.

        Raises
        ------
        InputError
            If the clock of the sender and that of the service would be mixed.
        """
        if self.own_clock is None or self.own_clock == (at_s is None):
            return max(clock_s, self.now_s) if at_s is None else at_s
        if self.own_clock:
            raise InputError(
                "The messages so far told no at_s, so the clock of the service counts; leave it "
                "out, always."
            )
        raise InputError(
            f"The messages so far told their time, at_s, the last one {self.now_s!r}; this one "
            f"needs it too."
        )

    def advance(self, at_s: float) -> None:
        """Let time pass.

        Raises
        ------
        InputError
            If it is earlier than what was told before.
        """
        if at_s < self.now_s:
            raise InputError(
                f"at_s is {at_s!r}, and the last message told of {self.now_s!r}; send in order."
            )
        self.now_s = at_s

    def keep(
        self,
        running: Mapping[str, tuple[str, tuple[int, ...]]],
        shares: dict[str, dict[str, float]],
    ) -> None:
        """Remember who has devices from now on, and what shares everybody is due."""
        for job in self.facts:
            self._settle(job)
        self.running = dict(running)
        self.since_s = dict.fromkeys(self.facts, self.now_s)
        self.lost = []
        self.shares = {job: each for job, each in shares.items() if job in self.facts}

    def lose(self, job: str) -> None:
        """Take note that the devices of a job have gone."""
        self._settle(job)
        self.lost.append(job)
        del self.running[job], self.since_s[job]

    def _settle(self, job: str) -> None:
        """Bring what a job has had, and what it is owed, up to now."""
        owed, here = self.owed(job), self.received(job)
        if owed:
            self._owed[job] = owed
        if here:
            self._received[job] = here
        if job in self.since_s:
            self.since_s[job] = self.now_s

    def received(self, job: str) -> dict[str, float]:
        """Return the seconds that a job has had devices so far, by accelerator."""
        had = dict(self._received.get(job, {}))
        if job in self.running:
            accelerator = self.running[job][0]
            had[accelerator] = had.get(accelerator, 0.0) + self.now_s - self.since_s[job]
        return had

    def owed(self, job: str) -> dict[str, float]:
        """Return the seconds by which a job is behind its shares, by accelerator."""
        owed = dict(self._owed.get(job, {}))
        passed_s = self.now_s - self.since_s.get(job, self.now_s)
        for kind, share in self.shares.get(job, {}).items():
            owed[kind] = owed.get(kind, 0.0) + share * passed_s
        if job in self.running and self.shares:
            kind = self.running[job][0]
            owed[kind] = owed.get(kind, 0.0) - passed_s
        return owed
