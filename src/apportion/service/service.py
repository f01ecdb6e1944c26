"""Events in, decisions out: a service that a scheduler asks, and that forgets nothing."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apportion.cluster import Cluster
from apportion.errors import ApportionError, InputError, unknown_name
from apportion.policies.sessions import session_files
from apportion.service.certified import CertifiedDevices, CertifiedShares
from apportion.service.deciding import Deciding, whole_racks
from apportion.service.decisions import age_of, devices_answer, record_of, shares_answer
from apportion.service.explain import explain_devices, explain_nothing, explain_shares
from apportion.service.known import TABLES, Known
from apportion.service.messages import FORMAT, ServiceMessage, read_message, refusal
from apportion.service.store import MessageStore
from apportion.service.tables import needed_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from apportion.estimators import EstimatedSpeeds
    from apportion.service.store import Kept

__all__ = ["DecisionService"]

_LOG = logging.getLogger(__name__)

_STATE_EVERY = 10_000
"""Messages between two times that the whole state is written."""
_ASKS_ONLY = ("state", "health")
"""Messages that change nothing, and are not kept."""


class _AskAgainError(InputError):
    """There is no answer yet, and the same message may have one a little later."""


class DecisionService:
    """Takes messages of `apportion.service.messages`, and answers each.

    What a message tells is in the store, on the disk, before it is answered; a service that is
    started again on the same store goes on as if it had not stopped: it tells itself the messages
    since the last state that was written, from which the running one began anew too, and solves
    what that has solved. So the next answer is the same, to the last digit, late ones included.

    Parameters
    ----------
    policy
        A policy, a scheduler, or the name of one.
    cluster
        The GPUs at the start: a `Cluster`, a mapping or text.
    store
        The file; ``None`` to keep nothing beyond the process.
    time_limit_s
        Seconds that an answer may take before the last one, with its age, is given instead;
        ``None`` for as long as it needs.
    estimates
        Guesses speeds that nobody told, and learns from what is observed.
    clock
        Gives the time of messages that do not tell it, s.
    settings
        Of the mechanism by which devices are given, see `apportion.solve_round`.

    Raises
    ------
    InputError
        If a value is none, or the store is of another service.
    """

    def __init__(
        self,
        policy: Any,
        cluster: Cluster | Mapping[str, int] | str,
        store: str | Path | None = None,
        *,
        time_limit_s: float | None = None,
        estimates: EstimatedSpeeds | None = None,
        clock: Callable[[], float] = time.time,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        workers = Cluster.of(cluster)
        decider = Deciding.chosen(policy)
        self._first = decider, workers, deepcopy(estimates), time_limit_s, settings
        self._clock, self._lock, self._began_s = clock, threading.RLock(), clock()
        self._answered = {"messages": 0, "refused": 0, "repeated": 0, "late": 0}
        about = {
            "format": FORMAT,
            "policy": repr(decider),
            "cluster": session_files.plain_cluster(workers),
            "estimates": None
            if estimates is None
            else [*map(str, estimates.columns), estimates.digest()],
            "settings": {name: repr(each) for name, each in (settings or {}).items()},
        }
        self._store = MessageStore(None if store is None else Path(store), about)
        self._unwritten = False
        self._begin()

    def _begin(self) -> None:
        """Be in the state in which the store was left, and know of nothing else."""
        decider, workers, estimates, time_limit_s, settings = self._first
        self._known = Known(
            workers,
            deepcopy(estimates),
            needs=needed_columns(decider),
            multiple=whole_racks(decider, workers),
        )
        self._deciding = Deciding(decider, self._known, time_limit_s, settings, self._note)
        self._deciding.told_again = True
        self._prepared_at, told = 0, 0
        self._turns = False
        if (kept := self._store.state()) is not None:
            self._deciding.skips = True
            self._prepared_at, rest, entries = kept
            self._known.restore(rest, entries)
            shares = CertifiedShares.restored(rest["shares"], rest["rows"])
            self._deciding.last["shares"] = shares
            self._deciding.last["devices"] = CertifiedDevices.restored(rest["devices"])
        for each in self._store.since(self._prepared_at):
            try:
                self._tell_again(each)
            except ApportionError as error:
                _LOG.info("message %d was refused: %s", each.number, error)
            if each.told is not None:
                self._store.pass_part()
            told += 1
        self._deciding.told_again = False
        self._deciding.go_on()
        if told or kept is not None:
            _LOG.info("goes on after %d messages, %d told again", self._store.number, told)

    def _note(self, what: str, kind: str | None, found: Mapping[str, Any] | None) -> None:
        """Keep what a solve does."""
        if not self._deciding.told_again:
            self._store.note(what, kind, self._known.now_s, found)

    def _tell_again(self, kept: Kept) -> None:
        """Do what was done: a message, or a solve that began or ended."""
        if kept.told is not None:
            told = {name: each for name, each in kept.told.items() if name != "clock_s"}
            message = read_message(told)
            at_s = kept.told.get("clock_s", message.at_s)
            self._act(replace(message, at_s=at_s), kept.number)
            self._known.own_clock = "clock_s" in kept.told
        elif kept.what == "begin":
            now_s, self._known.now_s = self._known.now_s, kept.at_s
            self._deciding.begin("devices" if kept.kind == "devices" else "shares", kept.number)
            self._known.now_s = now_s
        elif kept.what == "take" and kept.found is not None:
            self._deciding.take_again(kept.found)
        elif kept.what == "take":
            self._deciding.take()
        elif kept.what == "prepare":
            self._prepare(kept.number - 1)
        else:
            self._turn()

    def answer(self, given: Any) -> dict[str, Any]:
        """Answer a message; never raises for what is wrong with it.

        Parameters
        ----------
        given
            The message, as JSON holds it.

        Returns
        -------
        dict
            ``ok``, ``id``, ``number``, and what was asked for; or ``error``.
        """
        return self.answer_all([given])[0]

    def answer_all(self, given: Sequence[Any]) -> list[dict[str, Any]]:
        """Answer messages in turn, as `answer` does; what they tell goes to the disk at once."""
        with self._lock:
            try:
                if self._unwritten:  # what is in memory was not kept
                    self._store.try_to_write()
                    self._deciding.close()
                    self._store.count()
                    self._begin()
                    self._unwritten = False
                with self._store.at_once():
                    return [self._answer(each) for each in given]
            except sqlite3.Error as error:  # a full disk
                self._unwritten = True
                _LOG.error("%d messages could not be kept: %s", len(given), error)
                said = f"The store cannot be written ({error}): nothing has changed; send it again."
                return [refusal(_name_of(each), said, retry=True) for each in given]

    def _answer(self, given: Any) -> dict[str, Any]:
        """Answer one; it is kept, and not yet on the disk."""
        self._answered["messages"] += 1
        name = _name_of(given)
        try:
            message = read_message(given)
            kept = None if message.id is None else self._store.kept(message.id)
            if kept is not None:
                self._answered["repeated"] += 1
                return _same(given, *kept)
            return self._answer_new(message, given)
        except ApportionError as error:
            self._answered["refused"] += 1
            return refusal(name, str(error), retry=isinstance(error, _AskAgainError))

    def _answer_new(self, message: ServiceMessage, given: dict[str, Any]) -> dict[str, Any]:
        """Act, write down, and answer."""
        if message.op in _ASKS_ONLY:
            return self._said(message, getattr(self, f"_{message.op}")())
        known = self._known
        at_s = known.time_of(message.at_s, float(self._clock()))
        number = self._store.number + 1
        answer = self._said(message, self._act(replace(message, at_s=at_s), number))
        answer["number"] = number
        known.own_clock = message.at_s is None
        clock = {"clock_s": at_s} if known.own_clock else {}
        self._store.write({**given, **clock}, answer)
        if message.op == "decide" and _LOG.isEnabledFor(logging.INFO):
            _LOG.info("decided: message %d", number, extra={"decision": record_of(answer, at_s)})
        self._rest_if_due()
        return answer

    def _rest_if_due(self) -> None:
        """Begin to write the state, or be done with it, once no solve is under way.

        The problem that is solved is made anew from the same state, beside the one that answers,
        and takes its place when the state is whole: a service that begins with that state then
        answers by the same problem.
        """
        deciding, store = self._deciding, self._store
        if self._turns:
            due = store.last_part is not None
        else:
            due = store.number - self._prepared_at >= _STATE_EVERY
        if due:
            deciding.taken_if_done()
        deciding.rests = due and deciding.busy
        if due and not deciding.busy:
            if self._turns:
                self._turn()
            else:
                self._prepare(store.number)

    def _prepare(self, number: int) -> None:
        """Begin to keep the state after a message."""
        self._prepared_at, self._turns = number, True
        self._deciding.prepare()
        known = self._known.copied()
        count = len(known.facts) * len(TABLES)
        self._store.begin_state(number, known.rest(), known.entries(), count)

    def _turn(self) -> None:
        """Finish the state with what was certified last, and go on by what was prepared."""
        self._turns = False
        self._deciding.turn()
        if self._deciding.told_again:
            self._store.leave_state()
        else:
            shares, devices = self._deciding.last["shares"], self._deciding.last["devices"]
            entries = [] if self._deciding.time_limit_s is None else [*shares.entries()]
            last = {"shares": shares.rest(), "rows": entries, "devices": devices.rest()}
            self._store.end_state(last)

    def _said(self, message: ServiceMessage, found: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "v": FORMAT,
            "ok": True,
            "id": message.id,
            "number": self._store.number,
            **found,
        }

    def _act(self, message: ServiceMessage, number: int) -> dict[str, Any]:
        """Do what a message asks; a message with an error changes nothing."""
        known, at_s = self._known, self._known.now_s if message.at_s is None else message.at_s
        before_s = known.now_s
        known.advance(at_s)
        try:
            if message.op == "decide":
                return {"decision": self._decide(message, number)}
            if message.op == "explain":
                return {"explanation": self._explain(message, number)}
            self._deciding.changed(known.change(message))
        except ApportionError:
            known.now_s = before_s
            raise
        return {}

    def _decide(self, message: ServiceMessage, number: int) -> dict[str, Any]:
        """Return shares, and devices where they are asked for or nothing else is to be had."""
        known, deciding = self._known, self._deciding
        only = message.fields.get("jobs")
        for job in only or ():
            if job not in known.facts:
                raise unknown_name("job to decide about", job, known.facts)
        cannot_run = sorted(known.unfit if only is None else known.unfit.keys() & {*only})
        if deciding.has_shares and not message.fields.get("devices", False):
            shares = deciding.ask("shares", number)
            if deciding.told_again:
                return {}
            found = shares_answer(shares, known, only)
            age = age_of(shares, known, number)
        else:
            devices = deciding.ask("devices", number)
            found = devices_answer(devices, known, only, known.now_s - devices.at_s)
            age = age_of(devices, known, number)
        self._answered["late"] += age["late"]
        return {**found, **age, "cannot_run": cannot_run}

    def _explain(self, message: ServiceMessage, number: int) -> dict[str, Any]:
        known, deciding, job = self._known, self._deciding, message.fields["job"]
        if job not in known.facts:
            raise unknown_name("job to explain", job, known.facts)
        if job in known.unfit:
            return {**explain_nothing(job, known), "of_number": number, "age_s": 0, "late": False}
        found = deciding.ask("shares" if deciding.has_shares else "devices", number)
        if deciding.told_again:
            return {}
        if job not in (found.X.index if deciding.has_shares else found.status):
            raise _AskAgainError(f"Job {job!r} came after the last answer in time; ask again.")
        explained = explain_shares if deciding.has_shares else explain_devices
        return {**explained(job, found, known), **age_of(found, known, number)}

    def _state(self) -> dict[str, Any]:
        return {"state": self._known.state()}

    def _health(self) -> dict[str, Any]:
        return {"health": self.health()}

    def health(self) -> dict[str, Any]:
        """Return what the service is, and what it has done since it was started."""
        with self._lock:
            return {
                "policy": self._deciding.decider.label,
                "cluster": dict(self._known.gpus),
                "jobs": len(self._known.facts),
                "kept_messages": self._store.number,
                "uptime_s": float(self._clock()) - self._began_s,
                **self._answered,
            }

    def close(self) -> None:
        """Let go of the store; what was answered is in it."""
        with self._lock:
            self._deciding.close()
            self._store.close()

    def __enter__(self) -> DecisionService:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _name_of(given: Any) -> str | None:
    """Return the id of a message, if it has one that can be written."""
    name = given.get("id") if isinstance(given, dict) else None
    return name if isinstance(name, str) and name.isprintable() else None


def _same(given: Any, told: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to a message that was sent before.

    Raises
    ------
    InputError
        If it was another one.
    """
    before, now = ({**each, "at_s": None, "clock_s": None} for each in (told, given))
    if before != now:
        raise InputError(f"id {given['id']!r} was the name of another message; give each its own.")
    return answer
