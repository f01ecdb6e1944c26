"""Where a decision service keeps what it was told: one SQLite file, written before it answers."""

from __future__ import annotations

import json
import sqlite3
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from apportion.errors import InputError, written

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

_TABLES = """
CREATE TABLE IF NOT EXISTS service (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS message (
    number INTEGER PRIMARY KEY, id TEXT UNIQUE, told TEXT NOT NULL, answer TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS event (
    place INTEGER PRIMARY KEY AUTOINCREMENT, number INTEGER NOT NULL, what TEXT NOT NULL,
    kind TEXT, at_s REAL NOT NULL, found TEXT);
CREATE TABLE IF NOT EXISTS state (
    number INTEGER, part INTEGER, state TEXT NOT NULL, PRIMARY KEY (number, part));
"""
_IDS_KEPT = 100_000
"""Messages of which answers are kept, for those who ask again."""
_PARTS = 1_000
"""Messages over which a state is written, so that none of them waits for all of it."""
_LEAST_ENTRIES = 50
_LAST_PART = -1
"""Number of the part with what is not by job, which is written last: the state is whole then."""


class Kept(NamedTuple):
    """A message that was answered, or what a solve did before the message of that number was.

    Attributes
    ----------
    number
        How many messages were kept before, and this one.
    told
        The message, with the time that it was given; ``None`` for what a solve did.
    what, kind
        Of a solve: ``"begin"``, ``"take"``, ``"prepare"`` or ``"turn"``, and of what kind.
    at_s
        Time of what a solve did, s.
    found
        What it found, where that is kept.
    """

    number: int
    told: dict[str, Any] | None
    what: str = ""
    kind: str | None = None
    at_s: float = 0.0
    found: dict[str, Any] | None = None


class MessageStore:
    """Messages in order, with their answers, and the state after some of them.

    A message and its answer are written in one transaction, and synced to the disk, before anybody
    sees the answer. So what was answered is there after a crash, and what is not there was not
    answered. The whole state is written now and then, a part with each message; messages since
    the last whole one are told again.

    Parameters
    ----------
    path
        The file; ``None`` to keep everything in memory.
    settings
        What a service was made with; a file is of one service only.

    Attributes
    ----------
    number
        Messages kept so far.
    last_part
        What is left to write of a state, for `end_state`; ``None`` where there is no such.

    Raises
    ------
    InputError
        If the file is none of a service, or of another one, or in use.
    """

    def __init__(self, path: Path | None, settings: Mapping[str, Any]) -> None:
        where = ":memory:" if path is None else str(path)
        try:
            self._file = sqlite3.connect(
                where, check_same_thread=False, timeout=0.5, isolation_level=None
            )
            self._file.execute("PRAGMA locking_mode=EXCLUSIVE")
            self._file.execute("PRAGMA journal_mode=WAL")
            self._file.execute("PRAGMA synchronous=FULL")
            self._file.executescript(_TABLES)
            self._claim(settings, where)
        except sqlite3.Error as error:
            raise InputError(
                f"{where!r} cannot be used to keep a decision service: {error}."
            ) from error
        self.number = self._whole = self._writing = 0
        self._parts: Iterator[tuple[int, str]] = iter(())
        self.last_part: Mapping[str, Any] | None = None
        self.count()

    def count(self) -> None:
        """Learn anew how many messages are kept."""
        self._roll_back()
        row = self._file.execute("SELECT MAX(number) FROM message").fetchone()
        state = self._file.execute(
            "SELECT MAX(number) FROM state WHERE part = ?", (_LAST_PART,)
        ).fetchone()
        self._whole = state[0] or 0
        self.number = max(row[0] or 0, self._whole)
        self.leave_state()

    def _claim(self, settings: Mapping[str, Any], where: str) -> None:
        """Write down of which service the file is, or compare."""
        with self.at_once():
            for name, value in settings.items():
                text = json.dumps(value, sort_keys=True)
                found = self._file.execute(
                    "SELECT value FROM service WHERE name = ?", (name,)
                ).fetchone()
                if found is None:
                    self._file.execute("INSERT INTO service VALUES (?, ?)", (name, text))
                elif found[0] != text:
                    one, other = (
                        (f" {found[0]}", f", not {text}") if name == "cluster" else ("", "")
                    )
                    raise InputError(
                        f"{where!r} is of a service with other {name}{one}{other}; take another "
                        f"file, or the same {name}."
                    )

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Write all that is kept inside, or nothing; it is on the disk at the end."""
        self._roll_back()  # what could not be rolled back then
        self._file.execute("BEGIN")
        try:
            yield
            self._file.execute("COMMIT")
        except BaseException:
            self._roll_back()
            raise

    def _roll_back(self) -> None:
        if self._file.in_transaction:
            self._file.execute("ROLLBACK")

    def try_to_write(self) -> None:
        """Write something small.

        Raises
        ------
        sqlite3.Error
            If that cannot be done.
        """
        with self.at_once():
            self._file.execute("INSERT OR REPLACE INTO service VALUES ('tried', '0')")
            self._file.execute("DELETE FROM service WHERE name = 'tried'")

    def kept(self, name: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Return the message with an id, and the answer to it, if there was one."""
        found = self._file.execute("SELECT told, answer FROM message WHERE id = ?", (name,))
        row = found.fetchone()
        return None if row is None else (dict(json.loads(row[0])), dict(json.loads(row[1])))

    def write(self, told: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        """Keep a message and its answer, and a part of the state, within `at_once`."""
        self._file.execute(
            "INSERT INTO message VALUES (?, ?, ?, ?)",
            (self.number + 1, told.get("id"), json.dumps(told), json.dumps(answer)),
        )
        self.number += 1
        self._file.execute("DELETE FROM message WHERE number <= ?", (self._forgotten(),))
        for part, text in islice(self._parts, 1):
            self._write_part(part, text)

    def _forgotten(self) -> int:
        """Return the number of the last message that nobody needs, for its id or what it told."""
        return min(self.number - _IDS_KEPT, self._whole)

    def note(
        self, what: str, kind: str | None, at_s: float, found: Mapping[str, Any] | None = None
    ) -> None:
        """Keep what a solve did between the last message and the next, within `at_once`."""
        row = self.number + 1, what, kind, at_s, None if found is None else json.dumps(found)
        self._file.execute(
            "INSERT INTO event (number, what, kind, at_s, found) VALUES (?, ?, ?, ?, ?)", row
        )

    def begin_state(
        self, number: int, rest: Mapping[str, Any], entries: Iterator[Any], count: int
    ) -> None:
        """Begin to keep the state after a message: a part with each further one.

        Parameters
        ----------
        number
            Of the message.
        rest, entries
            The state: what is in the last part, and what is divided among those before.
        count
            Entries, about.
        """
        self._writing, self.last_part = number, None
        self._parts = self._made(rest, entries, max(_LEAST_ENTRIES, -(-count // _PARTS)))

    def pass_part(self) -> None:
        """Go on by the part of the state that was written with a message that is told again."""
        next(self._parts, None)

    def leave_state(self) -> None:
        """Write no more of a state that was begun."""
        self._parts, self.last_part = iter(()), None

    def _made(
        self, rest: Mapping[str, Any], entries: Iterator[Any], size: int
    ) -> Iterator[tuple[int, str]]:
        part = 0
        while some := [*islice(entries, size)]:
            yield part, json.dumps(some)
            part += 1
        self.last_part = rest

    def _write_part(self, part: int, text: str) -> None:
        row = self._writing, part, text
        self._file.execute("INSERT OR REPLACE INTO state VALUES (?, ?, ?)", row)

    def end_state(self, more: Mapping[str, Any]) -> None:
        """Write the last part, and more with it, within `at_once`; forget what is long past."""
        self._write_part(_LAST_PART, json.dumps({**(self.last_part or {}), **more}))
        self._whole, self.last_part = self._writing, None
        self._file.execute("DELETE FROM state WHERE number < ?", (self._whole,))
        self._file.execute("DELETE FROM event WHERE number <= ?", (self._whole,))

    def state(self) -> tuple[int, dict[str, Any], Iterable[tuple[str, str, Any]]] | None:
        """Return the last whole state, and after how many messages: `begin_state`'s two parts."""
        rows = self._file.execute(
            "SELECT part, state FROM state WHERE number = ? ORDER BY part", (self._whole,)
        ).fetchall()
        if not rows:
            return None
        rest, *parts = (json.loads(text) for _, text in rows)
        return self._whole, rest, [(name, job, each) for part in parts for name, job, each in part]

    def since(self, number: int) -> Iterator[Kept]:
        """Return messages after a number, and what solves did, in order."""
        events = [
            Kept(
                row[0], None, row[1], row[2], row[3], None if row[4] is None else json.loads(row[4])
            )
            for row in self._file.execute(
                "SELECT number, what, kind, at_s, found FROM event WHERE number > ? ORDER BY place",
                (number,),
            ).fetchall()
        ]
        place = 0
        for row in self._file.execute(
            "SELECT number, told FROM message WHERE number > ? ORDER BY number", (number,)
        ).fetchall():
            while place < len(events) and events[place].number <= row[0]:
                yield events[place]
                place += 1
            yield Kept(int(row[0]), dict(json.loads(row[1])))
        yield from events[place:]

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def __repr__(self) -> str:
        return f"MessageStore of {written(self.number)} messages"
