"""What was certified last, and what each job has had and is owed of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from apportion.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from apportion.allocation import Allocation
    from apportion.service.known import Known
    from apportion.sim.one_round.decision import RoundDecision


_ROUNDING = 1e-9
"""Part of the time that a decision stands by which who asks at its end may seem early."""


@dataclass(frozen=True)
class CertifiedShares:
    """Shares of time, and what they knew of.

    Attributes
    ----------
    X, throughput
        Shares by job and accelerator, and steps/s by job, as `apportion.Allocation` has them.
    prices, objective, unit, gap, status, policy
        Of that allocation; no objective and gap where nobody can run.
    at_s, number
        Time and number of the last message that it knows of.
    """

    X: pd.DataFrame
    throughput: Any
    prices: dict[str, float]
    objective: float | None
    unit: str
    gap: float | None
    status: str
    policy: str
    at_s: float
    number: int

    @classmethod
    def of(cls, found: Allocation, *, at_s: float, number: int) -> CertifiedShares:
        """Keep what a solve has given."""
        prices = {str(kind): float(each) for kind, each in found.prices.items()}
        objective, gap = float(found.objective), float(found.gap)
        said = found.unit, gap, str(found.status), str(found.policy)
        return cls(found.X, found.throughput, prices, objective, *said, at_s, number)

    @classmethod
    def of_nobody(cls, known: Known, number: int) -> CertifiedShares:
        """Nobody has anything, as nobody is there who could run."""
        empty = pd.DataFrame(columns=[*known.gpus], dtype=float)
        none = pd.Series(dtype=float)
        return cls(empty, none, {}, None, "", None, "nobody", "", known.now_s, number)

    def stands(self, known: Known) -> bool:
        """Whether it holds on without being asked for again: shares are asked for each time."""
        return False

    def rest(self) -> dict[str, Any]:
        """Return what is not by job, as JSON holds it."""
        told = {name: each for name, each in vars(self).items() if name not in ("X", "throughput")}
        return {**told, "kinds": [str(each) for each in self.X.columns]}

    def entries(self) -> Iterable[list[Any]]:
        """Return each job, its shares and its steps/s, as JSON holds it."""
        rows = zip(self.X.index, self.X.to_numpy().tolist(), self.throughput.tolist(), strict=True)
        return ([str(job), *row, speed] for job, row, speed in rows)

    @classmethod
    def restored(cls, rest: Mapping[str, Any], rows: list[list[Any]]) -> CertifiedShares:
        """Take up what `rest` and `entries` gave."""
        told = {name: each for name, each in rest.items() if name != "kinds"}
        index = pd.Index([row[0] for row in rows], dtype=object)
        X = pd.DataFrame([row[1:-1] for row in rows], index, rest["kinds"], dtype=float)
        return cls(X, pd.Series([row[-1] for row in rows], index, dtype=float), **told)


@dataclass(frozen=True)
class CertifiedDevices:
    """Who has which devices, and what that knew of.

    Attributes
    ----------
    running
        Accelerator and devices by job, in the order of the decision.
    status
        started, extended, moved, preempted or waiting, by job.
    valid_for_s
        For how long it stands if nothing happens, s; ``None`` for until a job comes or is done.
    shares
        Shares of time behind it, by job and accelerator; none where no policy of shares decides.
    about
        Mechanism, and gap and status of these shares.
    at_s, number
        Time and number of the last message that it knows of.
    """

    running: dict[str, tuple[str, tuple[int, ...]]]
    status: dict[str, str]
    valid_for_s: float | None
    shares: dict[str, dict[str, float]]
    about: dict[str, Any]
    at_s: float
    number: int

    @classmethod
    def of(cls, decided: RoundDecision, *, at_s: float, number: int) -> CertifiedDevices:
        """Keep what a round has given."""
        running = {
            str(job): (str(name), tuple(map(int, held)))
            for job, (name, held) in decided.running.items()
        }
        status = {str(job): "waiting" for job in decided.waiting}
        for name in ("started", "moved", "extended", "preempted"):
            status |= {str(job): name for job in getattr(decided.plan, name)}
        X, shares = None if decided.allocation is None else decided.allocation.X, {}
        if X is not None and X.columns.nlevels == 1:
            shares = {
                str(job): {str(kind): float(each) for kind, each in row.items() if each}
                for job, row in zip(X.index, X.to_dict("records"), strict=True)
            }
        about: dict[str, Any] = {"mechanism": decided.mechanism}
        if decided.allocation is not None:
            about |= {"gap": float(decided.gap), "status": str(decided.status)}
        valid_for_s = None if decided.valid_for_s == float("inf") else float(decided.valid_for_s)
        return cls(running, status, valid_for_s, shares, about, at_s, number)

    @classmethod
    def of_nobody(
        cls, known: Known, number: int, about: Mapping[str, Any] | None = None
    ) -> CertifiedDevices:
        """Nobody has anything, as nobody is there who could run."""
        return cls({}, {}, None, {}, dict(about or {}), known.now_s, number)

    def stands(self, known: Known) -> bool:
        """Whether it holds on: nothing but what was observed was told since, and it is not over."""
        left_s = float("inf") if self.valid_for_s is None else self.valid_for_s
        left_s *= 1 - _ROUNDING
        return 0 < self.number >= known.changed_by and known.now_s - self.at_s < left_s

    def rest(self) -> dict[str, Any]:
        """Return everything, as JSON holds it."""
        return dict(vars(self))

    @classmethod
    def restored(cls, rest: Mapping[str, Any]) -> CertifiedDevices:
        """Take up what `rest` gave."""
        running = {job: (name, tuple(held)) for job, (name, held) in rest["running"].items()}
        return cls(**{**rest, "running": running})


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
