"""Files that are whole or absent, whatever stops the process that writes them."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import platform
import re
from functools import cache
from pathlib import Path

__all__ = ["drop_drafts", "is_alive", "replace_file", "this_machine"]

_PROCESS = re.compile(r"\.(\d{1,9})\.tmp\Z")


@cache
def this_machine() -> str:
    """Return what tells this machine, since it was started, from others that see its files.

    Numbers of processes mean something within it only.
    """
    told = [platform.node()]
    for file in map(Path, ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid")):
        with contextlib.suppress(OSError):
            told.append(str(file.readlink()) if file.is_symlink() else file.read_text().strip())
    return hashlib.sha256(" ".join(told).encode()).hexdigest()[:8]


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file in one step: a reader sees the old content or the new, never half.

    It is written beside its place, as ``.NAME.MACHINE.PROCESS.tmp``, onto the disk, and then moved.
    Drafts that killed processes of this machine have left are removed.

    Raises
    ------
    OSError
        If it cannot be written; the old content is still there.
    """
    draft = path.with_name(f".{path.name}.{this_machine()}.{os.getpid()}.tmp")
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
    """Remove the drafts of a file whose processes were here and are no more."""
    for draft in path.parent.glob(f".{glob.escape(path.name)}.{this_machine()}.*.tmp"):
        process = _PROCESS.search(draft.name)
        if process is not None and not is_alive(int(process[1])):
            with contextlib.suppress(OSError):
                draft.unlink()


def is_alive(process: int) -> bool:
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
