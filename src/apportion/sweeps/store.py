"""Finished runs as lines of a file, appended one by one; a killed sweep loses none of them."""

from __future__ import annotations

import json
import logging
import os
from typing import TYPE_CHECKING, Any

from apportion.errors import InputError
from apportion.report.files import check_folder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["FILE", "RunLog"]

logger = logging.getLogger(__name__)

FILE = "runs.jsonl"
"""Name of the file of finished runs, inside the output folder."""


class RunLog:
    """The finished runs below an output folder, a JSON object a line.

    Parameters
    ----------
    out
        The output folder; None to keep nothing.
    """

    def __init__(self, out: Path | None) -> None:
        self._file = None if out is None else out / FILE

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
        """Add a run, whole and on the disk before anything else happens."""
        if self._file is None:
            return
        line = json.dumps(record, allow_nan=False).encode() + b"\n"
        with self._file.open("ab", buffering=0) as stream:
            stream.write(line)
            os.fsync(stream.fileno())

    def finished(self) -> dict[str, dict[str, Any]]:
        """Return the runs that did not fail, by fingerprint; a half-written line is passed over.

        Raises
        ------
        InputError
            If the file cannot be read.
        """
        if self._file is None or not self._file.exists():
            return {}
        try:
            lines = self._file.read_bytes().split(b"\n")
        except OSError as error:
            raise InputError(f"Cannot read {str(self._file)!r}: {error.strerror}.") from error
        found = {}
        for number, line in enumerate(lines, start=1):
            record = _parsed(line)
            if record is None and line:
                logger.warning("%s, line %d is not a run; it is passed over.", self._file, number)
            if record is not None and record.get("error") is None:
                found[record["fingerprint"]] = record
        return found


def _parsed(line: bytes) -> dict[str, Any] | None:
    """Read one line, or return None."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and "fingerprint" in record else None


def _end_of_lines(content: bytes) -> int:
    """Return the length without a last line that a killed process left half-written."""
    return content.rfind(b"\n") + 1
