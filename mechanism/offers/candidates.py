"""Who is offered free GPUs next, and at which tiers they are accepted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import numpy as np

from apportion.cluster import TIERS
from apportion.mechanism.decider import promises
from apportion.mechanism.offers.waiting import WaitingJobs, on_tick
from apportion.mechanism.orders import keys_of
from apportion.ties import EXACT, first_of, ranks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from apportion.mechanism.offers.holdings import Holdings
    from apportion.mechanism.offers.leased_jobs import LeasedJobs
    from apportion.mechanism.offers.rules import Rule
    from apportion.mechanism.orders import Order
    from apportion.mechanism.scheduler import Placement
    from apportion.types import Bools, Floats

    Positions = NDArray[np.intp]


class Takers(Protocol):
    """The part of the mechanism that decides who takes what; all the rest carries out."""

    def candidates(self, now_s: float, waiting: WaitingJobs) -> tuple[Positions, Bools]:
        """Say who would accept what now.

        Parameters
        ----------
        now_s
            The time, seconds.
        waiting
            Waiting jobs. Those for which nothing is free (`WaitingJobs.fits`) may be left out.

        Returns
        -------
        positions : ndarray
            Positions in `waiting`, who is to be served first standing first, shape (candidates,).
            A job may stand there several times, with different options. Only the first who finds
            something free is served, so those behind it may be left out.
        options : ndarray
            Tiers of accelerator types that each accepts now, shape (candidates, options): option
            ``type * 3 + tier``. It gets the type on which it is fastest at one of them that is
            free, and there the fastest placement within them.
        """
        ...

    def next_change_s(self, now_s: float, waiting: WaitingJobs) -> float:
        """Return when a job will accept what it rejects now, nothing else happening in between.

        Seconds, later than now; infinite for never.
        """
        ...


class Planned(NamedTuple):
    """A lease of a plan.

    Attributes
    ----------
    job
        Its number.
    kind
        Position of the accelerator type of its GPUs.
    placement
        Where they are.
    tier
        The tier that it has accepted: its wait is noted as one for this tier.
    """

    job: int
    kind: int
    placement: Placement
    tier: int


@runtime_checkable
class Plans(Takers, Protocol):
    """Who decides about all waiting jobs at once; also asked, as others, about single ones."""

    def plan(self, now_s: float, waiting: WaitingJobs, holdings: Holdings) -> Sequence[Planned]:
        """Say who gets which GPUs of those that are free now, and change nothing.

        Asked again until nobody gets any, as leases may have changed the delay timers.

        Parameters
        ----------
        now_s
            The time, seconds.
        waiting
            The waiting jobs that need no more GPUs than are free.
        holdings
            What is free, what waiting jobs have given back in this instant, and how fast
            placements are.
        """
        ...


class Served(NamedTuple):
    """A job that accepts GPUs, and the tightest and widest tier that it accepts and finds free.

    The tiers are those of the accelerator type at position ``kind``.
    """

    job: int
    tightest: int
    widest: int
    kind: int = 0


def first_served(takers: Takers, now_s: float, waiting: WaitingJobs) -> Served | None:
    """Return the first job to accept anything that is free; None if there is none."""
    if not waiting.job.size:
        return None
    positions, options = takers.candidates(now_s, waiting)
    if not positions.size:
        return None
    free = options & waiting.fits[positions]
    row = int(free.any(axis=1).argmax())
    job, accepted = int(waiting.job[positions[row]]), free[row]
    if not accepted.any():
        return None
    kind = _fastest_type(waiting.records, job, accepted)
    of_type = accepted[kind * len(TIERS) : (kind + 1) * len(TIERS)].nonzero()[0]
    return Served(job, int(of_type[0]), int(of_type[-1]), kind)


def _fastest_type(records: LeasedJobs, job: int, accepted: Bools) -> int:
    """Return the type on which a job is fastest, of the options that it accepts.

    Of equally fast options that in the tighter tier, then the type on which the job was last, then
    the first one. An option counts as fast as the job is there where all is free.
    """
    options = np.flatnonzero(accepted)
    kinds, tiers = np.divmod(options, len(TIERS))
    speed = ranks(records.slowdown[job, options], relative=EXACT)
    return int(kinds[np.lexsort((kinds, kinds != records.kind[job], tiers, speed))[0]])


@dataclass(frozen=True)
class InOrder:
    """Jobs in an order, each accepting by a rule.

    Parameters
    ----------
    order
        Whose turn it is.
    rule
        Which tiers a job accepts after which wait.
    """

    order: Order
    rule: Rule

    @cached_property
    def steady(self) -> bool:
        """Whether a job that waits alone accepts the same at all times; see `Rule.steady`."""
        return promises(self.rule, "steady", "patience_s")

    @cached_property
    def at_once(self) -> bool:
        """Whether no job accepts later what it rejects now; see `Rule.at_once`."""
        return promises(self.rule, "at_once", "patience_s")

    def candidates(self, now_s: float, waiting: WaitingJobs) -> tuple[Positions, Bools]:
        """Return the first of the jobs that accept something that is free."""
        accepts = accepts_from_s(self.rule, waiting) <= now_s
        if waiting.held_option is not None:
            accepts |= waiting.held_option[:, None] == np.arange(accepts.shape[1])
        accepts &= waiting.fits
        serves = np.logical_or.reduce(accepts, axis=1).nonzero()[0]
        if serves.size > 1:
            first = first_of(self._keys(now_s, waiting.at(serves)), relative=EXACT)
            serves = serves[first : first + 1]
        return serves, accepts[serves]

    def _keys(self, now_s: float, waiting: WaitingJobs) -> Iterator[Floats]:
        """Give the keys of the order, then those that break ties: the later ones are rare."""
        yield from keys_of(self.order, now_s, waiting)
        yield waiting.released_s
        yield waiting.arrival_s

    def next_change_s(self, now_s: float, waiting: WaitingJobs) -> float:
        """Return when the next timer ends for which GPUs are free."""
        return next_acceptance_s(self.rule, now_s, waiting)


def next_acceptance_s(rule: Rule, now_s: float, waiting: WaitingJobs) -> float:
    """Return when the first job accepts by a rule what is free and not accepted now, seconds."""
    from_s = accepts_from_s(rule, waiting)
    later = np.where(waiting.fits & (from_s > now_s), from_s, np.inf)
    return float(later.min(initial=np.inf))


def accepts_from_s(rule: Rule, waiting: WaitingJobs) -> NDArray[np.float64]:
    """Return when each job begins to accept each option, seconds, shape (waiting, options)."""
    return on_tick(waiting.released_s[:, None] + _patience_s(rule, waiting))


def _patience_s(rule: Rule, waiting: WaitingJobs) -> NDArray[np.float64]:
    """Return the waits after which each job accepts each option, seconds.

    They are those of the rule by tier, whatever the type, but for a gang that is faster at a wider
    tier of a type: it does not hold out for a tighter one there.
    """
    patience_s = rule.patience_s(waiting)
    if waiting.types > 1:
        patience_s = np.tile(patience_s, waiting.types)
    if not waiting.records.prefers_wider:
        return patience_s
    slowdown = waiting.records.slowdown[waiting.job]
    firsts = range(0, slowdown.shape[1], len(TIERS))
    ways = ((0, 1), (0, 2), (1, 2))
    for tighter, wider in ((k + i, k + j) for k in firsts for i, j in ways):
        faster = slowdown[:, wider] < slowdown[:, tighter]
        faster &= np.isfinite(slowdown[:, tighter])
        if faster.any():
            patience_s = patience_s.copy()
            least = np.minimum(patience_s[:, tighter], patience_s[:, wider])
            patience_s[:, wider] = np.where(faster, least, patience_s[:, wider])
    return patience_s
