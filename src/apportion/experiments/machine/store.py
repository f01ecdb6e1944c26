"""Finished runs as lines of a file, each with a checksum; a killed command loses none of them.

The one format in which comparisons, sweeps and benchmarks keep what is finished.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from typing import TYPE_CHECKING, Any

from apportion.errors import InputError
from apportion.experiments.machine.leases import FileLeases
from apportion.report.files import check_folder

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

logger = logging.getLogger(__name__)

FILE = "runs.jsonl"
"""Name of the file of finished runs inside a folder of results."""

_WRITING = "writing"
"""Lease of whoever adds a line."""

_SEAL = re.compile(rb', "sha256": "([0-9a-f]{64})"\}\Z')
_FINGERPRINT = re.compile(rb'\{"fingerprint": "([^"\\]*)"')


class Store:
    """A file of finished runs: a line of JSON each, which ends with its own checksum.

    Nothing in the file is ever carried out, and a line that is not what was written, to the byte,
    is taken for none: its run is computed again. Several drivers may use one file at the same time.

    Parameters
    ----------
    file
        Where it lies; None to keep nothing.

    Attributes
    ----------
    leases
        By which drivers share out what is to be done; None where nothing is kept.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._read_to = 0
        self.leases = None if file is None else FileLeases(file.with_name(f"{file.name}.leases"))

    def open(self, *, resume: bool) -> None:
        """Make the folder ready for `append`, and empty the file if nothing is to be resumed.

        Raises
        ------
        InputError
            If the folder cannot be written, or others are at work on what is not to be resumed.
        """
        if self._file is None or self.leases is None:
            return
        check_folder(self._file.parent)
        others = [] if resume else self.others()
        if others:
            raise InputError(
                f"{str(self._file)!r} cannot begin anew: {' and '.join(others)} is at work on it. "
                f"Wait until that is done, or resume, to share its runs."
            )
        try:
            with self.leases.held(_WRITING), self._file.open("ab+") as stream:
                stream.truncate(_end_of_lines(self._file.read_bytes()) if resume else 0)
        except OSError as error:
            raise InputError(f"Cannot write {str(self._file)!r}: {error.strerror}.") from error

    def others(self) -> list[str]:
        """Return process and host of whoever else is at work on the file."""
        return [] if self.leases is None else self.leases.others()

    def append(self, record: Mapping[str, Any]) -> None:
        """Add a run, whole and on the disk before anything else happens.

        Parameters
        ----------
        record
            Plain values; the first is the ``fingerprint`` by which the run is found again.

        Raises
        ------
        InputError
            If the file cannot be written, e.g. because the disk is full.
        """
        if self._file is None or self.leases is None:
            return
        try:
            with self.leases.held(_WRITING), self._file.open("ab", buffering=0) as stream:
                stream.write(_sealed(json.dumps(record, allow_nan=False).encode()) + b"\n")
                os.fsync(stream.fileno())
        except OSError as error:
            raise InputError(f"Cannot write {str(self._file)!r}: {error.strerror}.") from error

    def finished(self, wanted: Collection[str] | None = None) -> dict[str, dict[str, Any]]:
        """Return the runs that did not fail, by fingerprint; damaged lines are passed over.

        Parameters
        ----------
        wanted
            Fingerprints to look for; None for all that there are.

        Raises
        ------
        InputError
            If the file cannot be read.
        """
        self._read_to = 0
        records, damaged = self._read(wanted)
        if damaged:
            lines = f"line {damaged[0]}" + (f" and {len(damaged) - 1} more" * (len(damaged) > 1))
            logger.warning(
                "%s, %s: damaged, or written by another version. These runs are computed again.",
                *(self._file, lines),
            )
        return {mark: record for mark, record in records.items() if record.get("error") is None}

    def later(self, wanted: Collection[str]) -> dict[str, dict[str, Any]]:
        """Return what came since the last look, by fingerprint, runs that failed among them.

        Raises
        ------
        InputError
            If the file cannot be read.
        """
        return self._read(wanted)[0]

    def _read(self, wanted: Collection[str] | None) -> tuple[dict[str, dict[str, Any]], list[int]]:
        """Return the runs of lines not read yet, and the numbers of those that are damaged."""
        found: dict[str, dict[str, Any]] = {}
        damaged: list[int] = []
        if self._file is None or not self._file.exists():
            return found, damaged
        try:
            with self._file.open("rb") as stream:
                stream.seek(self._read_to)
                for number, line in enumerate(stream, start=1):
                    if not line.endswith(b"\n"):  # somebody is writing it
                        break
                    self._read_to += len(line)
                    damaged += [] if _take_up(line, wanted, found) else [number]
        except OSError as error:
            raise InputError(f"Cannot read {str(self._file)!r}: {error.strerror}.") from error
        return found, damaged


def _take_up(line: bytes, wanted: Collection[str] | None, found: dict[str, dict[str, Any]]) -> bool:
    """Enter the run of a line if it is wanted; tell whether the line is whole."""
    body = _unsealed(line.removesuffix(b"\n"))
    start = None if body is None else _FINGERPRINT.match(body)
    if body is None or start is None:
        return False
    if wanted is None or start[1].decode() in wanted:
        record = json.loads(body)
        if record.get("error") is None or record["fingerprint"] not in found:
            found[record["fingerprint"]] = record
    return True


def _sealed(body: bytes) -> bytes:
    """Add the checksum of a JSON object as its last member."""
    seal = f', "sha256": "{hashlib.sha256(body).hexdigest()}"}}'
    return body.removesuffix(b"}") + seal.encode()


def _unsealed(line: bytes) -> bytes | None:
    """Return the JSON object without its checksum, or None where that does not fit."""
    seal = _SEAL.search(line)
    if seal is None:
        return None
    body = line[: seal.start()] + b"}"
    return body if hashlib.sha256(body).hexdigest().encode() == seal[1] else None


def _end_of_lines(content: bytes) -> int:
    """Return the length without a last line that a killed process left half-written."""
    return content.rfind(b"\n") + 1
