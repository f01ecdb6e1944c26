"""Text files that traces come in: plain or gzipped, with ``#`` lines on top or without."""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path

from apportion.errors import InputError

__all__ = ["TextFile", "read_text"]

_GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True)
class TextFile:
    """Content of a file below its leading comments and blank lines.

    Parameters
    ----------
    path
        Where it was read from.
    body
        Content from the first line that counts, never empty.
    comments
        The leading comments, without ``#``.
    first_line
        Number of the line at which `body` begins, from 1.
    """

    path: Path
    body: bytes
    comments: tuple[str, ...]
    first_line: int

    @property
    def head(self) -> str:
        """The first line that counts."""
        return self.body.split(b"\n", 1)[0].decode("utf-8", errors="replace").rstrip("\r")

    @property
    def name(self) -> str:
        """Name of the file without its endings."""
        name = self.path.name
        for ending in (".gz", ".csv", ".trace", ".txt", ".tsv"):
            name = name.removesuffix(ending)
        return name


def read_text(path: str | Path) -> TextFile:
    """Read a plain or gzipped file.

    Raises
    ------
    InputError
        If it cannot be read, is not what its name says, or has no content.
    """
    path = Path(path)
    body = _read_bytes(path).removeprefix(b"\xef\xbb\xbf")
    comments: list[str] = []
    first_line = 1
    while body:
        line, _, rest = body.partition(b"\n")
        if line.strip() and not line.startswith(b"#"):
            return TextFile(path, body, tuple(comments), first_line)
        if line.strip():
            comments.append(line.decode("utf-8", errors="replace").lstrip("#").strip())
        body, first_line = rest, first_line + 1
    raise InputError(f"{path} is empty.")


def _read_bytes(path: Path) -> bytes:
    """Content of a file, unpacked if it is gzipped."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror}.") from error
    if not content.startswith(_GZIP_MAGIC):
        if path.suffix == ".gz" and content:
            raise InputError(f"{path} is named .gz, but it is not a gzip file.")
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} is not a whole gzip file: {error}.") from error
