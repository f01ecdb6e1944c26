"""Where a decision service keeps what it was told: one SQLite file, written before it answers."""

from __future__ import annotations

import json
import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from apportion.errors import InputError, written

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

__all__ = ["Kept", "MessageStore"]

_TABLES = """
CREATE TABLE IF NOT EXISTS service (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS message (
    number INTEGER PRIMARY KEY, id TEXT UNIQUE, told TEXT NOT NULL, answer TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS state (number INTEGER PRIMARY KEY, state TEXT NOT NULL);
"""
_IDS_KEPT = 100_000
"""Messages of which answers are kept, for those who ask again."""


class Kept(NamedTuple):
    """A message that was answered.

    Attributes
    ----------
    number
        How many messages were kept before, and this one.
    told
        The message, with the time that it was given.
    """

    number: int
    told: dict[str, Any]


class MessageStore:
    """Messages in order, with their answers, and the state after some of them.

    A message and its answer are written in one transaction, and synced to the disk, before anybody
    sees the answer. So what was answered is there after a crash, and what is not there was not
    answered. The whole state is written now and then; messages since are told again.

    Parameters
    ----------
    path
        The file; ``None`` to keep everything in memory.
    settings
        What a service was made with; a file is of one service only.

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
        self.number = 0
        self.count()

    def count(self) -> None:
        """Learn anew how many messages are kept."""
        row = self._file.execute("SELECT MAX(number) FROM message").fetchone()
        state = self._file.execute("SELECT MAX(number) FROM state").fetchone()
        self.number = max(row[0] or 0, state[0] or 0)

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
                    raise InputError(
                        f"{where!r} is of a service with {name}={found[0]}, not {text}; take "
                        f"another file, or the same {name}."
                    )

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Write all that is kept inside, or nothing; it is on the disk at the end."""
        self._file.execute("BEGIN")
        try:
            yield
        except BaseException:
            if self._file.in_transaction:
                self._file.execute("ROLLBACK")
            raise
        try:
            self._file.execute("COMMIT")
        except sqlite3.Error:
            if self._file.in_transaction:
                self._file.execute("ROLLBACK")
            raise

    def kept(self, name: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Return the message with an id, and the answer to it, if there was one."""
        found = self._file.execute("SELECT told, answer FROM message WHERE id = ?", (name,))
        row = found.fetchone()
        return None if row is None else (dict(json.loads(row[0])), dict(json.loads(row[1])))

    def write(self, told: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        """Keep a message and its answer, within `at_once`."""
        self._file.execute(
            "INSERT INTO message VALUES (?, ?, ?, ?)",
            (self.number + 1, told.get("id"), json.dumps(told), json.dumps(answer)),
        )
        self.number += 1

    def write_state(self, state: Mapping[str, Any]) -> None:
        """Keep the state after the last message, within `at_once`; forget what is long past."""
        self._file.execute("DELETE FROM state")
        self._file.execute("INSERT INTO state VALUES (?, ?)", (self.number, json.dumps(state)))
        self._file.execute("DELETE FROM message WHERE number <= ?", (self.number - _IDS_KEPT,))

    def state(self) -> tuple[int, dict[str, Any]] | None:
        """Return the last state that was kept, and after how many messages."""
        row = self._file.execute("SELECT number, state FROM state ORDER BY number DESC").fetchone()
        return None if row is None else (int(row[0]), dict(json.loads(row[1])))

    def since(self, number: int) -> Iterator[Kept]:
        """Return the messages after a number, in order."""
        for row in self._file.execute(
            "SELECT number, told FROM message WHERE number > ? ORDER BY number", (number,)
        ).fetchall():
            yield Kept(int(row[0]), dict(json.loads(row[1])))

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def __repr__(self) -> str:
        return f"MessageStore of {written(self.number)} messages"
