"""Finished runs of an unfinished comparison, kept in a folder so that it can be resumed."""

from __future__ import annotations

import contextlib
import logging
import pickle
import re
import shutil
from typing import TYPE_CHECKING

from apportion.report.files import check_folder, write_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from apportion.sim import Run

__all__ = ["FOLDER", "Unfinished"]

logger = logging.getLogger(__name__)

FOLDER = ".partial"
"""Folder of the finished runs, inside the output folder."""


class Unfinished:
    """The finished runs below an output folder, each under its policy and fingerprint.

    The files are pickles, which Python runs as code when it reads them: resume only in folders
    that you trust.

    Parameters
    ----------
    out
        The output folder of the comparison; None to keep nothing.

    Raises
    ------
    InputError
        If the folder cannot be written.
    """

    def __init__(self, out: Path | None) -> None:
        self._folder = None if out is None else out / FOLDER
        if self._folder is not None:
            check_folder(self._folder)

    def keep(self, policy: str, fingerprint: str, run: Run) -> None:
        """Store a finished run."""
        if self._folder is not None:
            write_bytes(self._file(self._folder, policy, fingerprint), pickle.dumps(run))

    def find(self, policy: str, fingerprint: str) -> Run | None:
        """Return the stored run, or None if there is none of this fingerprint."""
        if self._folder is None:
            return None
        file = self._file(self._folder, policy, fingerprint)
        if not file.exists():
            return None
        try:
            run: Run = pickle.loads(file.read_bytes())
        except (OSError, EOFError, pickle.UnpicklingError, AttributeError, ImportError) as error:
            logger.warning("Cannot read %s (%s); %s runs again.", file, error, policy)
            return None
        return run

    def remove(self) -> None:
        """Delete the folder: the comparison is finished."""
        if self._folder is not None:
            with contextlib.suppress(OSError):
                shutil.rmtree(self._folder)

    @staticmethod
    def _file(folder: Path, policy: str, fingerprint: str) -> Path:
        # A label may hold characters that no file name may.
        return folder / f"{re.sub(r'[^A-Za-z0-9_.-]', '_', policy)}-{fingerprint}.pickle"
