"""Asks a policy or scheduler about what is known, and keeps its problem warm between answers."""

from __future__ import annotations

import logging
import time
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as LateError
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from apportion.errors import ApportionError, InputError, SolveError
from apportion.own_code import said_with_place
from apportion.policies import solve
from apportion.policies.base import depends_on_time
from apportion.service.certified import CertifiedDevices, CertifiedShares
from apportion.service.warm import WarmShares, by_type, needed_columns, tables
from apportion.sim.deciders import get_decider, manner_of
from apportion.sim.one_round import solve_round

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from apportion.allocation import Allocation
    from apportion.cluster import Cluster
    from apportion.service.known import Known

    Kind = Literal["shares", "devices"]
    Answer = CertifiedShares | CertifiedDevices

_LOG = logging.getLogger(__name__)


def whole_racks(decider: Any, cluster: Cluster) -> int:
    """Return of what number of GPUs multiples are used: those of a whole rack, under leases."""
    if manner_of(decider).works_by[:1] != ("leases",):
        return 1
    return cluster.gpus_per_rack or cluster.largest_machine


class Deciding:
    """Answers by one policy or scheduler, from a thread of its own.

    While a solve takes longer than it may, messages are still read, and what was certified last is
    the answer. When a solve begins and when its answer is taken up is noted, so that a service that
    is started again can do the same in the same order, whatever the time limit made of it.

    Parameters
    ----------
    decider
        A policy or a scheduler, from `chosen`.
    known
        What is known now.
    time_limit_s
        Seconds that an answer may take; ``None`` for as long as it needs.
    settings
        Of the mechanism, where devices are given.
    note
        Told of every ``"begin"`` (and of what kind), ``"take"`` (and of devices that were found),
        ``"prepare"`` and ``"turn"``.

    Attributes
    ----------
    told_again
        Whether solves begin and end as was noted, not as messages ask.
    skips
        Whether solves of shares are left out, as what answered then is no longer there.
    rests
        Whether no solve begins: the state is about to be written, for which none may be under way.
    """

    def __init__(
        self,
        decider: Any,
        known: Known,
        time_limit_s: float | None,
        settings: Mapping[str, Any] | None,
        note: Callable[[str, str | None, Mapping[str, Any] | None], None],
    ) -> None:
        self.decider, self.known, self.time_limit_s = decider, known, time_limit_s
        self.settings, self._note = dict(settings or {}), note
        self.has_shares = hasattr(self.decider, "objective")
        self._anew = self.has_shares and (
            self.decider.space_sharing or self.decider.integral or depends_on_time(self.decider)
        )
        self.told_again = self.rests = self.skips = False
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="solve")
        self._under_way: Future[Answer] | None = None
        self._later: Callable[[], CertifiedDevices] | None = None
        self.last: dict[str, Any] = {
            "shares": self._of_nobody("shares", 0),
            "devices": self._of_nobody("devices", 0),
        }
        self._warm = WarmShares(decider, known)

    @staticmethod
    def chosen(policy: Any) -> Any:
        """Return the policy or scheduler that is meant.

        Raises
        ------
        InputError
            If there is none, or it decides about elastic jobs.
        """
        decider = get_decider(policy)
        if manner_of(decider).works_by[:1] == ("configurations",):
            raise InputError(
                f"{decider.label!r} is for elastic jobs, whose speed is by number of GPUs; a "
                f"decision service is told of speeds by accelerator."
            )
        return decider

    @property
    def busy(self) -> bool:
        """Whether a solve is under way whose answer was not taken up."""
        return self._under_way is not None

    def prepare(self) -> None:
        """Make a problem anew from what is known now, beside the one that answers until `turn`."""
        self._note("prepare", None, None)
        self._warm.prepare(wanted=self.has_shares and not self._anew)

    def turn(self) -> None:
        """Answer by what was prepared, as a service does that begins with the state of then."""
        self._note("turn", None, None)
        self._warm.turn()
        self.skips = False

    def changed(self, jobs: Iterable[str]) -> None:
        """Take note of jobs that came, went, or are otherwise known now."""
        self._warm.changed(jobs)

    def ask(self, kind: Kind, number: int) -> Any:
        """Return what is certified of what is known, or of what was, if it cannot be had in time.

        Devices that were decided stand as long as they are valid, see `CertifiedDevices.stands`.

        Raises
        ------
        InputError, InfeasibleError, SolveError
            From the policy, about what is known now.
        """
        if len(self.known.unfit) == len(self.known.facts):
            self.last[kind] = self._of_nobody(kind, number)
        elif not self.told_again and not self.last[kind].stands(self.known):
            self._asked(kind, number)
        return self.last[kind]

    def _asked(self, kind: Kind, number: int) -> None:
        until_s = None if self.time_limit_s is None else time.monotonic() + self.time_limit_s
        if self._under_way is not None:
            if not _done(self._under_way, until_s):
                return
            try:
                self.take()
            except ApportionError as error:  # of what was known before
                _LOG.warning("a decision that was late has failed: %s", error)
            if self.rests or self.last[kind].stands(self.known):
                return
        self.begin(kind, number)
        if self._under_way is not None and _done(self._under_way, until_s):
            self.take()

    def _of_nobody(self, kind: Kind, number: int) -> Answer:
        """Return that nobody has anything, as nobody can run."""
        if kind == "shares":
            return CertifiedShares.of_nobody(self.known, number)
        named = self.settings.get("mechanism") or manner_of(self.decider).works_by[0]
        about: dict[str, Any] = {"mechanism": str(getattr(named, "name", named))}
        if self.has_shares:
            about |= {"gap": None, "status": "nobody"}
        return CertifiedDevices.of_nobody(self.known, number, about)

    def taken_if_done(self) -> None:
        """Take up the answer that is under way, if it is there."""
        if self._under_way is not None and self._under_way.done():
            try:
                self.take()
            except ApportionError as error:
                _LOG.warning("a decision that was late has failed: %s", error)

    def begin(self, kind: Kind, number: int) -> None:
        """Ask about what is known now."""
        self._note("begin", kind, None)
        now_s = self.known.now_s
        if self.skips and kind == "shares":
            return
        if kind == "devices":
            self._later = partial(self._devices, self.known.frozen(), number)
            if not self.told_again:
                self.go_on()
            return
        anew = partial(self._solve_anew, self.known.frozen()) if self._anew else None
        asked = anew or self._warm.asked()
        self._under_way = self._threads.submit(
            lambda: CertifiedShares.of(asked(), at_s=now_s, number=number)
        )

    def go_on(self) -> None:
        """Begin what was about to begin: a decision about devices that was never taken up."""
        if self._later is not None:
            self._under_way, self._later = self._threads.submit(self._later), None

    def take_again(self, found: Mapping[str, Any]) -> None:
        """Take up what a decision about devices has found before."""
        self._later = None
        self._certify("devices", CertifiedDevices.restored(found))

    def take(self) -> None:
        """Wait for the answer under way, and take it up; a failure drops what was warm.

        Raises
        ------
        ApportionError
            From the policy; a `SolveError` tells of any other failure, as of a policy's own text.
        """
        self._later = None
        if self._under_way is None:
            return
        under_way, self._under_way = self._under_way, None
        try:
            found = under_way.result()
        except Exception as error:
            self._note("take", None, None)
            self._warm.drop()
            if isinstance(error, ApportionError):
                raise
            _LOG.exception("%s failed", self.decider.label)
            said = f"{self.decider.label} failed with {type(error).__name__}: "
            said += said_with_place(error)
            raise SolveError(said) from error
        devices = isinstance(found, CertifiedDevices)
        self._note("take", None, found.rest() if devices else None)
        self._certify("devices" if devices else "shares", found)

    def _certify(self, kind: Kind, found: Answer) -> None:
        if found.number >= self.last[kind].number:
            self.last[kind] = found

    def _solve_anew(self, known: Known) -> Allocation:
        speeds, jobs = tables(known, needed_columns(self.decider))
        return solve(self.decider, speeds, workers=known.cluster, jobs=jobs)

    def _devices(self, known: Known, number: int) -> CertifiedDevices:
        """Return who gets which devices now, as the next round of a simulation would."""
        throughputs, jobs = tables(known, needed_columns(self.decider))
        running = {job: held for job, held in known.running.items() if job in jobs.index}
        owed = by_type(known.owed, throughputs) if self.has_shares else None
        decided = solve_round(
            self.decider,
            throughputs,
            known.cluster,
            jobs=jobs,
            running=running or None,
            received=by_type(known.received, throughputs),
            owed=owed,
            **self.settings,
        )
        return CertifiedDevices.of(decided, at_s=known.now_s, number=number)

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._warm.close()


def _done(future: Future[Any], until_s: float | None) -> bool:
    """Wait until a time at most; tell whether there is an answer, or a failure."""
    try:
        future.exception(None if until_s is None else max(0.0, until_s - time.monotonic()))
    except LateError:
        return future.done()
    return True
