"""Files that are whole or absent, whatever stops the process that writes them."""

from __future__ import annotations

import contextlib
import glob
import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["drop_drafts", "replace_file"]

_PROCESS = re.compile(r"\.(\d{1,9})\.tmp\Z")


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file in one step: a reader sees the old content or the new, never half.

    It is written beside its place, as ``.NAME.PROCESS.tmp``, onto the disk, and then moved. Drafts
    that killed processes have left are removed.

    Raises
    ------
    OSError
        If it cannot be written; the old content is still there.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with draft.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise
    drop_drafts(path)


def drop_drafts(path: Path) -> None:
    """Remove the drafts of a file whose processes are no more."""
    for draft in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        process = _PROCESS.search(draft.name)
        if process is not None and not _is_alive(int(process[1])):
            with contextlib.suppress(OSError):
                draft.unlink()


def _is_alive(process: int) -> bool:
    """Whether a process of this machine may still be there."""
    if os.name == "nt":  # the signal that asks elsewhere would end it there
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
