"""Events in, decisions out: a service that a scheduler asks, and that forgets nothing."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apportion.annotations import explained
from apportion.cluster import Cluster
from apportion.errors import ApportionError, InputError
from apportion.service.deciding import Deciding
from apportion.service.decisions import record_of, state_answer
from apportion.service.known import plain_cluster
from apportion.service.live import AskAgainError, LiveState
from apportion.service.messages import FORMAT, ServiceMessage, read_message, refusal
from apportion.service.store import MessageStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from apportion.estimators import EstimatedSpeeds

_LOG = logging.getLogger(__name__)

_ASKS_ONLY = ("state", "health")
"""Messages that change nothing, and are not kept."""


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

    @explained
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
            "cluster": plain_cluster(workers),
            "references": None
            if estimates is None
            else [*map(str, estimates.columns), estimates.digest()],
            "settings": {name: repr(each) for name, each in (settings or {}).items()},
        }
        self._store = MessageStore(None if store is None else Path(store), about)
        self._full = self._stale = False
        try:
            self._live = LiveState(*self._first, self._store)
        except sqlite3.Error as error:
            self._store.close()
            raise InputError(f"{str(store)!r} cannot be read: {error}.") from error

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
            before = dict(self._answered)
            try:
                if self._full:
                    self._store.try_to_write()
                self._begin_anew_if_stale()
                self._stale = True  # until all of it is on the disk
                with self._store.at_once():
                    found = [self._answer(each) for each in given]
                self._stale = self._full = False
                return found
            except (sqlite3.Error, OSError) as error:  # a full disk
                self._answered, self._full = before, True
                _LOG.error("%d messages could not be kept: %s", len(given), error)
                said = f"The store cannot be written ({error}): nothing has changed; send it again."
                return [self._told_unwritten(each, said) for each in given]
            except Exception as error:
                self._answered = before
                if len(given) > 1:  # the others are answered
                    return [self.answer(each) for each in given]
                _LOG.exception("a message could not be answered")
                said = f"{type(error).__name__}: {error}. Nothing has changed."
                return [self._refused(given[0], said)]

    def _refused(self, given: Any, error: str, *, retry: bool = False) -> dict[str, Any]:
        """Refuse a message that was not kept."""
        self._answered["messages"] += 1
        self._answered["refused"] += 1
        return refusal(_name_of(given), error, retry=retry)

    def _begin_anew_if_stale(self) -> None:
        """Forget what was not kept."""
        if self._stale:
            self._live.deciding.close()
            self._store.count()
            self._live = LiveState(*self._first, self._store)
            self._stale = False

    def _told_unwritten(self, given: Any, said: str) -> dict[str, Any]:
        """Answer what needs no writing, if the store can be read; refuse all else."""
        before = dict(self._answered)
        if isinstance(given, dict) and given.get("op") in _ASKS_ONLY:
            try:
                self._begin_anew_if_stale()
                return self._answer(given)
            except Exception as error:
                _LOG.error("the store cannot be read: %s", error)
                self._answered = before
        return self._refused(given, said, retry=True)

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
            return refusal(name, str(error), retry=isinstance(error, AskAgainError))

    def _answer_new(self, message: ServiceMessage, given: dict[str, Any]) -> dict[str, Any]:
        """Act, write down, and answer."""
        if message.op in _ASKS_ONLY:
            return self._said(message, getattr(self, f"_{message.op}")())
        known = self._live.known
        at_s = known.time_of(message.at_s, float(self._clock()))
        number = self._store.number + 1
        answer = self._said(message, self._live.act(replace(message, at_s=at_s), number))
        answer["number"] = number
        known.own_clock = message.at_s is None
        clock = {"clock_s": at_s} if known.own_clock else {}
        self._store.write({**given, **clock}, answer)
        if message.op == "decide":
            self._answered["late"] += answer["decision"]["late"]
            if _LOG.isEnabledFor(logging.INFO):
                record = record_of(answer, at_s)
                _LOG.info("decided: message %d", number, extra={"decision": record})
        self._live.rest_if_due()
        return answer

    def _said(self, message: ServiceMessage, found: Mapping[str, Any]) -> dict[str, Any]:
        return {"v": FORMAT, "ok": True, "id": message.id, "number": self._store.number, **found}

    def _state(self) -> dict[str, Any]:
        return {"state": state_answer(self._live.known)}

    def _health(self) -> dict[str, Any]:
        return {"health": self._figures()}

    def health(self) -> dict[str, Any]:
        """Return what the service is, and what it has done since it was started."""
        with self._lock:
            with suppress(sqlite3.Error, OSError):
                self._begin_anew_if_stale()
            return self._figures()

    def _figures(self) -> dict[str, Any]:
        return {
            "policy": self._live.deciding.decider.label,
            "cluster": dict(self._live.known.gpus),
            "jobs": len(self._live.known.facts),
            "kept_messages": self._store.number,
            "uptime_s": float(self._clock()) - self._began_s,
            **self._answered,
        }

    def close(self) -> None:
        """Let go of the store; what was answered is in it."""
        with self._lock:
            try:
                self._store.close()  # first: a solve may take long to end
            finally:
                self._live.deciding.close()

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
