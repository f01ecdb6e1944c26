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
from apportion.report.files import check_folder

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

__all__ = ["FILE", "Store"]

logger = logging.getLogger(__name__)

FILE = "runs.jsonl"
"""Name of the file of finished runs inside a folder of results."""

_SEAL = re.compile(rb', "sha256": "([0-9a-f]{64})"\}\Z')
_FINGERPRINT = re.compile(rb'\{"fingerprint": "([^"\\]*)"')


class Store:
    """A file of finished runs: a line of JSON each, which ends with its own checksum.

    Nothing in the file is ever carried out, and a line that is not what was written, to the byte,
    is taken for none: its run is computed again.

    Parameters
    ----------
    file
        Where it lies; None to keep nothing.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file

    def open(self, *, resume: bool) -> None:
        """Make the folder ready for `append`, and empty the file if nothing is to be resumed.

        Raises
        ------
        InputError
            If the folder cannot be written.
        """
        if self._file is None:
            return
        check_folder(self._file.parent)
        try:
            with self._file.open("ab+") as stream:
                stream.truncate(_end_of_lines(self._file.read_bytes()) if resume else 0)
        except OSError as error:
            raise InputError(f"Cannot write {str(self._file)!r}: {error.strerror}.") from error

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
        if self._file is None:
            return
        try:
            with self._file.open("ab", buffering=0) as stream:
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
        if self._file is None or not self._file.exists():
            return {}
        found: dict[str, dict[str, Any]] = {}
        damaged: list[int] = []
        try:
            with self._file.open("rb") as stream:
                for number, line in enumerate(stream, start=1):
                    whole = _take_up(line, wanted, found)
                    damaged += [] if whole else [number]
        except OSError as error:
            raise InputError(f"Cannot read {str(self._file)!r}: {error.strerror}.") from error
        if damaged:
            lines = f"line {damaged[0]}" + (f" and {len(damaged) - 1} more" * (len(damaged) > 1))
            logger.warning(
                "%s, %s: damaged, or written by another version. These runs are computed again.",
                *(self._file, lines),
            )
        return found


def _take_up(line: bytes, wanted: Collection[str] | None, found: dict[str, dict[str, Any]]) -> bool:
    """Enter the run of a line if it is wanted and did not fail; tell whether the line is whole."""
    body = _unsealed(line.removesuffix(b"\n"))
    start = None if body is None else _FINGERPRINT.match(body)
    if body is None or start is None:
        return False
    if wanted is None or start[1].decode() in wanted:
        record = json.loads(body)
        if record.get("error") is None:
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
