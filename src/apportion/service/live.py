"""What a service knows and decides, as the messages in its store leave it."""

from __future__ import annotations

import logging
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from apportion.errors import ApportionError, InputError, unknown_name
from apportion.service.certified import CertifiedDevices, CertifiedShares
from apportion.service.deciding import Deciding, whole_racks
from apportion.service.decisions import (
    age_of,
    devices_answer,
    explain_devices,
    explain_nothing,
    explain_shares,
    shares_answer,
)
from apportion.service.known import TABLES, Known
from apportion.service.messages import ServiceMessage, read_message
from apportion.service.warm import needed_columns, needed_types

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apportion.cluster import Cluster
    from apportion.estimators import EstimatedSpeeds
    from apportion.service.store import Kept, MessageStore

_LOG = logging.getLogger(__name__)

_STATE_EVERY = 10_000
"""Messages between two times that the whole state is written."""


class AskAgainError(InputError):
    """There is no answer yet, and the same message may have one a little later."""


class LiveState:
    """Does what messages ask, and at its start what the store has of them.

    Parameters
    ----------
    decider, workers, estimates, time_limit_s, settings
        As of a service before its first message.
    store
        Messages, what solves did, and the last state that was written.

    Attributes
    ----------
    known
        What the messages tell.
    deciding
        What is asked about it.
    """

    def __init__(
        self,
        decider: Any,
        workers: Cluster,
        estimates: EstimatedSpeeds | None,
        time_limit_s: float | None,
        settings: Mapping[str, Any] | None,
        store: MessageStore,
    ) -> None:
        self._store = store
        self.known = Known(
            workers,
            deepcopy(estimates),
            needs=needed_columns(decider),
            job_types=needed_types(decider),
            multiple=whole_racks(decider, workers),
        )
        self.deciding = Deciding(decider, self.known, time_limit_s, settings, self._note)
        self._prepared_at, self._turns = 0, False
        self._begin()

    def _begin(self) -> None:
        """Be in the state in which the store was left."""
        self.deciding.told_again, told = True, 0
        if (kept := self._store.state()) is not None:
            self.deciding.skips = True
            self._prepared_at, rest, entries = kept
            self.known.restore(rest, entries)
            shares = CertifiedShares.restored(rest["shares"], rest["rows"])
            self.deciding.last["shares"] = shares
            self.deciding.last["devices"] = CertifiedDevices.restored(rest["devices"])
        for each in self._store.since(self._prepared_at):
            try:
                self._tell_again(each)
            except ApportionError as error:
                _LOG.info("message %d was refused: %s", each.number, error)
            if each.told is not None:
                self._store.pass_part()
            told += 1
        self.deciding.told_again = False
        self.deciding.go_on()
        if told or kept is not None:
            _LOG.info("goes on after %d messages, %d told again", self._store.number, told)

    def _note(self, what: str, kind: str | None, found: Mapping[str, Any] | None) -> None:
        """Keep what a solve does."""
        if not self.deciding.told_again:
            self._store.note(what, kind, self.known.now_s, found)

    def _tell_again(self, kept: Kept) -> None:
        """Do what was done: a message, or a solve that began or ended."""
        if kept.told is not None:
            told = {name: each for name, each in kept.told.items() if name != "clock_s"}
            message = read_message(told)
            at_s = kept.told.get("clock_s", message.at_s)
            self.act(replace(message, at_s=at_s), kept.number)
            self.known.own_clock = "clock_s" in kept.told
        elif kept.what == "begin":
            now_s, self.known.now_s = self.known.now_s, kept.at_s
            self.deciding.begin("devices" if kept.kind == "devices" else "shares", kept.number)
            self.known.now_s = now_s
        elif kept.what == "take" and kept.found is not None:
            self.deciding.take_again(kept.found)
        elif kept.what == "take":
            self.deciding.take()
        elif kept.what == "prepare":
            self._prepare(kept.number - 1)
        else:
            self._turn()

    def rest_if_due(self) -> None:
        """Begin to write the state, or be done with it, once no solve is under way.

        The problem that is solved is made anew from the same state, beside the one that answers,
        and takes its place when the state is whole: a service that begins with that state then
        answers by the same problem.
        """
        deciding, store = self.deciding, self._store
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
        self.deciding.prepare()
        known = self.known.copied()
        count = len(known.facts) * len(TABLES)
        self._store.begin_state(number, known.rest(), known.entries(), count)

    def _turn(self) -> None:
        """Finish the state with what was certified last, and go on by what was prepared."""
        self._turns = False
        self.deciding.turn()
        if self.deciding.told_again:
            self._store.leave_state()
        else:
            shares, devices = self.deciding.last["shares"], self.deciding.last["devices"]
            entries = [] if self.deciding.time_limit_s is None else [*shares.entries()]
            last = {"shares": shares.rest(), "rows": entries, "devices": devices.rest()}
            self._store.end_state(last)

    def act(self, message: ServiceMessage, number: int) -> dict[str, Any]:
        """Do what a message asks; a message with an error changes nothing."""
        known, at_s = self.known, self.known.now_s if message.at_s is None else message.at_s
        before_s = known.now_s
        known.advance(at_s)
        try:
            if message.op == "decide":
                return {"decision": self._decide(message, number)}
            if message.op == "explain":
                return {"explanation": self._explain(message, number)}
            self.deciding.changed(known.change(message, number))
        except ApportionError:
            known.now_s = before_s
            raise
        return {}

    def _decide(self, message: ServiceMessage, number: int) -> dict[str, Any]:
        """Return shares, and devices where they are asked for or nothing else is to be had."""
        known, deciding = self.known, self.deciding
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
        return {**found, **age, "cannot_run": cannot_run}

    def _explain(self, message: ServiceMessage, number: int) -> dict[str, Any]:
        known, deciding, job = self.known, self.deciding, message.fields["job"]
        if job not in known.facts:
            raise unknown_name("job to explain", job, known.facts)
        if job in known.unfit:
            return {**explain_nothing(job, known), "of_number": number, "age_s": 0, "late": False}
        found = deciding.ask("shares" if deciding.has_shares else "devices", number)
        if deciding.told_again:
            return {}
        if job not in (found.X.index if deciding.has_shares else found.status):
            raise AskAgainError(f"Job {job!r} came after the last answer in time; ask again.")
        explained = explain_shares if deciding.has_shares else explain_devices
        return {**explained(job, found, known), **age_of(found, known, number)}
