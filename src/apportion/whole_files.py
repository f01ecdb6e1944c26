"""Files that are whole or absent, whatever stops the process that writes them."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import platform
import re
import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from apportion.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

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

    It is written beside its place, as ``.NAME.MACHINE.THREAD.PROCESS.tmp``, onto the disk, and then
    moved: threads that write one file have drafts of their own, and the last one stays. Drafts that
    killed processes of this machine have left are removed.

    Raises
    ------
    OSError
        If it cannot be written; the old content is still there.
    """
    writer = f"{threading.get_ident()}.{os.getpid()}"
    draft = path.with_name(f".{path.name}.{this_machine()}.{writer}.tmp")
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


@contextlib.contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Say which file cannot be written.

    Raises
    ------
    InputError
        In place of the error of the system, as for a folder that is not there.
    """
    try:
        yield
    except OSError as error:
        raise InputError(
            f"Cannot write {error.filename or path}: {error.strerror or error}."
        ) from error


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
