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
from apportion.errors import ApportionError, InputError
from apportion.policies.sessions import session_files
from apportion.service.deciding import Deciding
from apportion.service.explain import explain_devices, explain_shares
from apportion.service.known import Known
from apportion.service.messages import FORMAT, ServiceMessage, read_message
from apportion.service.store import MessageStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from apportion.estimators import EstimatedSpeeds
    from apportion.service.deciding import CertifiedShares
    from apportion.sim.one_round.decision import RoundDecision

__all__ = ["DecisionService"]

_LOG = logging.getLogger(__name__)

_STATE_EVERY = 10_000
"""Messages between two times that the whole state is written."""
_ASKS_ONLY = ("state", "health")
"""Messages that change nothing, and are not kept."""
_DIGITS = 9


class DecisionService:
    """Takes messages of `apportion.service.messages`, and answers each.

    What a message tells is in the store, on the disk, before it is answered; a service that is
    started again on the same store goes on as if it had not stopped: it tells itself the messages
    since the last state that was written, from which the running one begins anew too, so the next
    answer is the same, to the last digit (unless one was cut off by the time limit: then to nine).

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
        self._first = policy, workers, deepcopy(estimates), time_limit_s, settings
        self._known = Known(workers, estimates)
        self._deciding = Deciding(policy, self._known, time_limit_s, settings)
        self._clock, self._lock, self._began_s = clock, threading.RLock(), clock()
        self._answered = {"messages": 0, "refused": 0, "repeated": 0, "late": 0}
        about = {
            "format": FORMAT,
            "policy": repr(self._deciding.decider),
            "cluster": session_files.plain_cluster(workers),
            "estimates": None if estimates is None else [str(each) for each in estimates.columns],
            "settings": {name: repr(each) for name, each in (settings or {}).items()},
        }
        self._store = MessageStore(None if store is None else Path(store), about)
        self._take_up()

    def _begin(self) -> None:
        """Forget all but what the store has."""
        policy, workers, estimates, time_limit_s, settings = self._first
        self._deciding.close()
        self._known = Known(workers, deepcopy(estimates))
        self._deciding = Deciding(policy, self._known, time_limit_s, settings)
        self._store.count()
        self._take_up()

    def _take_up(self) -> None:
        """Be in the state in which the store was left."""
        kept = self._store.state()
        begun = 0
        if kept is not None:
            begun = kept[0]
            self._known.restore(kept[1])
        told = 0
        for each in self._store.since(begun):
            try:
                self._act(read_message(each.told), each.number)
            except ApportionError as error:
                _LOG.info("message %d was refused: %s", each.number, error)
            told += 1
        if begun or told:
            _LOG.info("goes on after %d messages, %d told again", self._store.number, told)

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
                with self._store.at_once():
                    return [self._answer(each) for each in given]
            except sqlite3.Error as error:  # a full disk: what is in memory is not kept
                self._begin()
                _LOG.error("%d messages could not be kept: %s", len(given), error)
                said = f"The store cannot be written ({error}): nothing has changed; send it again."
                return [self._refusal(_name_of(each), said) for each in given]

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
            return self._refusal(name, str(error))

    def _refusal(self, name: str | None, error: str) -> dict[str, Any]:
        return {"v": FORMAT, "ok": False, "id": name, "error": error}

    def _answer_new(self, message: ServiceMessage, given: dict[str, Any]) -> dict[str, Any]:
        """Act, write down, and answer."""
        if message.op in _ASKS_ONLY:
            return self._said(message, getattr(self, f"_{message.op}")())
        at_s = message.at_s
        if at_s is None:
            at_s = max(float(self._clock()), self._known.now_s)
        message = replace(message, at_s=at_s)
        answer = self._said(message, self._act(message, self._store.number + 1))
        answer["number"] = self._store.number + 1
        self._store.write({**given, "at_s": at_s}, answer)
        _noted(message, answer)
        if self._store.number % _STATE_EVERY == 0:
            self._store.write_state(self._known.state())
            self._deciding.begin_anew()
        return answer

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
            self._deciding.changed(known.change(message), cluster=message.op == "cluster")
        except ApportionError:
            known.now_s = before_s
            raise
        return {}

    def _decide(self, message: ServiceMessage, number: int) -> dict[str, Any]:
        """Return shares, and devices where they are asked for or nothing else is to be had."""
        only = message.fields.get("jobs")
        for job in only or ():
            if job not in self._known.facts:
                raise InputError(f"There is no job {job!r}.")
        known = self._known
        cannot_run = self._deciding.cannot_run
        if len(cannot_run) == len(known.facts):
            return {**_NOTHING, "cannot_run": cannot_run}
        found: dict[str, Any] = {}
        devices = not self._deciding.has_shares or message.fields.get("devices", False)
        if self._deciding.has_shares and not devices:
            found = self._shares(self._deciding.shares(number), only, number)
        if devices:
            decided, lost = self._deciding.devices(), known.lost
            known.keep(decided)
            found = _devices(decided, only, lost)
        return {**found, "cannot_run": cannot_run}

    def _shares(
        self, shares: CertifiedShares, only: list[str] | None, number: int
    ) -> dict[str, Any]:
        """Return shares of time with their certificate, and how old they are."""
        allocation, late = shares.allocation, shares.number < number
        self._answered["late"] += late
        X = allocation.X if only is None else allocation.X.reindex(only)
        speeds = allocation.throughput if only is None else allocation.throughput.reindex(only)
        kinds = [str(each) for each in X.columns]
        rows = zip(X.index, X.to_numpy().tolist(), speeds.tolist(), strict=True)
        return {
            "shares": {
                str(job): {
                    "time": {
                        kind: round(share, _DIGITS)
                        for kind, share in zip(kinds, row, strict=True)
                        if share > 0
                    },
                    "steps_per_s": float(f"{speed:.{_DIGITS}g}"),
                }
                for job, row, speed in rows
                if speed == speed and str(job) in self._known.facts  # of a late answer
            },
            "prices": {str(k): float(f"{p:.{_DIGITS}g}") for k, p in allocation.prices.items()},
            "objective": float(f"{allocation.objective:.{_DIGITS}g}"),
            "unit": allocation.unit,
            "gap": allocation.gap,
            "status": allocation.status,
            "of_number": shares.number,
            "age_s": self._known.now_s - shares.at_s,
            "late": late,
        }

    def _explain(self, message: ServiceMessage, number: int) -> dict[str, Any]:
        job = message.fields["job"]
        if job not in self._known.facts:
            raise InputError(f"There is no job {job!r}.")
        if not self._deciding.has_shares:
            return explain_devices(job, self._deciding.devices())
        allocation = self._deciding.shares(number).allocation
        if job not in allocation.X.index:
            raise InputError(f"Job {job!r} came after the last answer in time; ask again.")
        return explain_shares(job, allocation, self._known)

    def _state(self) -> dict[str, Any]:
        return {"state": deepcopy(self._known.state())}

    def _health(self) -> dict[str, Any]:
        return {"health": self.health()}

    def health(self) -> dict[str, Any]:
        """Return what the service is, and what it has done since it was started."""
        with self._lock:
            return {
                "policy": self._deciding.decider.label,
                "cluster": dict(self._known.cluster.gpus),
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


_NOTHING: dict[str, Any] = {"shares": {}, "devices": {}, "started": [], "moved": []}
_NOTHING |= {"preempted": [], "waiting": [], "late": False, "age_s": 0.0}
"""What is decided where nobody can run."""


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
    before, now = ({**each, "at_s": None} for each in (told, given))
    if before != now:
        raise InputError(f"id {given['id']!r} was the name of another message; give each its own.")
    return answer


def _devices(decided: RoundDecision, only: list[str] | None, lost: list[str]) -> dict[str, Any]:
    """Return who has which devices, as JSON holds it.

    Of jobs whose devices had gone, those that have others are moved, the others preempted.
    """
    valid_for_s = decided.valid_for_s
    found: dict[str, Any] = {
        "devices": {
            str(job): {
                "accelerator": name,
                "devices": [int(each) for each in held],
            }
            for job, (name, held) in decided.running.items()
            if only is None or job in only
        },
        "valid_for_s": None if valid_for_s == float("inf") else valid_for_s,
        "mechanism": decided.mechanism,
    }
    for status in ("started", "moved", "preempted"):
        found[status] = [str(job) for job in getattr(decided.plan, status)]
    found["waiting"] = [str(job) for job in decided.waiting if str(job) not in lost]
    again = [job for job in lost if job in found["started"]]
    found["started"] = [job for job in found["started"] if job not in again]
    found["moved"] += again
    found["preempted"] += [job for job in lost if job not in again]
    if decided.allocation is not None:
        found |= {"gap": decided.gap, "status": decided.status}
    return found


def _noted(message: ServiceMessage, answer: Mapping[str, Any]) -> None:
    """Log a decision as a record whose attribute ``decision`` has what was decided, in numbers."""
    if message.op != "decide" or not _LOG.isEnabledFor(logging.INFO):
        return
    decision = answer["decision"]
    figures = {name: each for name, each in decision.items() if not isinstance(each, dict | list)}
    counts = {name: len(each) for name, each in decision.items() if isinstance(each, dict | list)}
    record = {"id": message.id, "number": answer["number"], "at_s": message.at_s}
    _LOG.info("decided: %s", figures, extra={"decision": {**record, **figures, **counts}})
