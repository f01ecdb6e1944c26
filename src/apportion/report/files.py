"""Files that are whole or absent: written beside their place, then moved into it."""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import TYPE_CHECKING

from apportion.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["check_folder", "write_bytes", "write_text"]


def check_folder(folder: Path) -> None:
    """Make the folder and try to write in it, so that a long run does not fail at its end.

    Raises
    ------
    InputError
        If it cannot be made or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(f"Cannot write in {str(folder)!r}: {error.strerror or error}.") from error


def write_bytes(path: Path, content: bytes) -> Path:
    """Replace a file in one step: a reader sees the old content or the new, never half.

    Raises
    ------
    InputError
        If the folder or the file cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise InputError(f"Cannot write {str(path)!r}: {error.strerror or error}.") from error
    return path


def write_text(path: Path, content: str) -> Path:
    """Replace a text file in one step, UTF-8; see `write_bytes`."""
    return write_bytes(path, content.encode())
