"""Text from outside: files of users, plain or gzipped, with ``#`` lines on top or without.

All that the package is given as text is read here, and tables by `apportion.sim.traces.table` on
top of it. So whatever a file holds ends in an `InputError` that names the file and the line.
"""

from __future__ import annotations

import gzip
import json
import re
import tomllib
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from apportion.checks import file_path
from apportion.errors import InputError

if TYPE_CHECKING:
    from io import BufferedReader
    from pathlib import Path

LARGEST_FILE = 256 * 2**20
"""Most bytes of text that are read of a file, unpacked."""

MOST_LINES = 5_000_000
"""Most lines that are read of a file."""

_GZIP_MAGIC = b"\x1f\x8b"
_PACKED = {
    b"PK\x03\x04": "zip",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2",
    b"7z\xbc\xaf": "7z",
    b"PAR1": "parquet",
}
"""First bytes of files that are no text, by what they are."""
_LONGEST_MAGIC = max(map(len, _PACKED))
_TAR_MAGIC_AT = 257
_PIECE = 2**20
_MOST_COMMENTS = 1_000
_TOP = re.compile(rb"(?:\s*\n|#[^\n]*\n)*")
_COMMENT = re.compile(rb"^#[^\n]*", re.MULTILINE)


@dataclass(frozen=True)
class TextFile:
    """Content of a file below its leading comments and blank lines.

    Parameters
    ----------
    path
        Where it was read from.
    body
        Content from the first line that counts.
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
        for ending in (".gz", ".csv", ".trace", ".txt", ".tsv", ".swf", ".json"):
            name = name.removesuffix(ending)
        return name

    def text(self, *, lossy: bool = False) -> str:
        """Return the body as text; with `lossy` bytes that are none as numbers.

        Raises
        ------
        InputError
            If it is not in UTF-8.
        """
        if b"\0" in self.body:
            raise InputError(f"{self.path} is not text in UTF-8: it holds zero bytes.")
        try:
            return self.body.decode("utf-8", errors="backslashreplace" if lossy else "strict")
        except UnicodeDecodeError as error:
            line = self.body[: error.start].count(b"\n") + self.first_line
            raise InputError(
                f"{self.path}, line {line}: this is not text in UTF-8; save the file as UTF-8."
            ) from error

    def json(self) -> Any:
        """Return what stands here in JSON, or raise `InputError`."""
        return json_of(self.text(), self.path, self.first_line)

    def toml(self) -> dict[str, Any]:
        """Return what stands here in TOML, or raise `InputError`."""
        text = self.text()
        try:  # blank lines in place of those above, so that errors tell the lines of the file
            return tomllib.loads("\n" * (self.first_line - 1) + text)
        except (ValueError, RecursionError) as error:  # endless digits, endless brackets
            raise InputError(f"{self.path} is no TOML: {error}.") from error


def json_of(text: str | bytes, where: object, first_line: int = 1) -> Any:
    """Return what a text holds in JSON.

    Parameters
    ----------
    text
        The text.
    where
        Where it comes from, as errors name it.
    first_line
        Number of its first line.

    Raises
    ------
    InputError
        If it is no JSON.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        line = error.lineno + first_line - 1
        raise InputError(f"{where}, line {line}: no JSON from here on: {error.msg}.") from error
    except (TypeError, ValueError, RecursionError) as error:  # endless digits, endless brackets
        reason = str(error).partition("\n")[0]
        raise InputError(f"{where} cannot be read as JSON: {reason}.") from error


def read_text(path: str | Path, *, blank: bool = False) -> TextFile:
    """Read a plain or gzipped file, unpacking no more than `LARGEST_FILE` bytes.

    Parameters
    ----------
    path
        The file.
    blank
        Whether it may hold nothing but comments.

    Raises
    ------
    InputError
        If it cannot be read, is not what its name says, is packed otherwise, is too large, or has
        no content that it needs.
    """
    path = file_path("The file", path)
    try:
        with path.open("rb") as raw:
            return _text_of(path, raw, blank)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path} is not a whole gzip file: {error}.") from error
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error.strerror or error}.") from error


def _text_of(path: Path, raw: BufferedReader, blank: bool) -> TextFile:
    """Read an open file: what stands on top piece by piece, then the rest."""
    start = raw.peek(_LONGEST_MAGIC)
    stream: BinaryIO = raw
    if start.startswith(_GZIP_MAGIC):
        stream = cast("BinaryIO", gzip.GzipFile(fileobj=raw))
    elif path.suffix == ".gz" and start:
        raise InputError(f"{path} is named .gz, but it is not a gzip file.")
    for magic, name in _PACKED.items():
        if start.startswith(magic):
            raise InputError(f"{path} is a {name} file; unpack it first, or pack it with gzip.")
    comments, first_line, size, start = _top(path, stream)
    body = start + stream.read(LARGEST_FILE - size + 1)
    _check_size(path, size + len(body))
    if not body and not blank:
        raise InputError(f"{path} is empty.")
    if body[_TAR_MAGIC_AT:].startswith(b"ustar"):
        raise InputError(f"{path} is a tar archive; unpack it first.")
    if body.count(b"\n") > MOST_LINES:
        raise InputError(f"{path} has more than {MOST_LINES:,} lines; split it, or give its head.")
    return TextFile(path, body, comments, first_line)


def _top(path: Path, stream: BinaryIO) -> tuple[tuple[str, ...], int, int, bytes]:
    """Read the comments and blank lines on top, piece by piece.

    Returns
    -------
    The comments, the number of the line below them, the bytes above it, and the first of its own.
    """
    comments: list[bytes] = []
    first_line, size = 1, 0
    piece = stream.read(_PIECE).removeprefix(b"\xef\xbb\xbf")
    while piece:
        found = _TOP.match(piece)
        end = found.end() if found else 0
        top, rest = piece[:end], piece[end:]
        comments += _COMMENT.findall(top)[: _MOST_COMMENTS - len(comments)]
        first_line, size = first_line + top.count(b"\n"), size + len(top)
        _check_size(path, size)
        if rest.strip() and not rest.startswith(b"#"):
            return _texts(comments), first_line, size, rest
        piece = stream.read(_PIECE)
        if rest.startswith(b"#"):  # the next piece has the rest of the line
            if len(rest) > _PIECE:
                raise InputError(f"{path}, line {first_line}: a comment of more than 1 MiB.")
            piece = rest + piece if piece else b""
        else:
            size += len(rest)
    return _texts(comments), first_line, size, b""


def _texts(comments: list[bytes]) -> tuple[str, ...]:
    return tuple(line.decode("utf-8", errors="replace").lstrip("#").strip() for line in comments)


def _check_size(path: Path, size: int) -> None:
    """Refuse what would fill the memory, as a few kilobytes of gzip can."""
    if size > LARGEST_FILE:
        raise InputError(
            f"{path} holds more than {LARGEST_FILE // 2**20} MiB of text; split it, or cut it down "
            f"to the columns and jobs that are needed."
        )
