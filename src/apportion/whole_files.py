"""Files that are whole or absent, and csv cells that no spreadsheet runs as formulas.

A cell that begins with ``=``, ``+``, ``-``, ``@``, a tab or a carriage return is a formula to a
spreadsheet: ``=HYPERLINK(...)`` as the name of a job sends what stands beside it away at a click.
Such texts are written with an apostrophe before them, which spreadsheets take for "text" and do not
show, and are read without it. A text that begins with apostrophes and one of those signs has one
more apostrophe in the file, so that every text comes back as it was. Numbers stay as they are.
So is a text that begins with a blank: readers leave out blanks between a comma and a cell.
"""

from __future__ import annotations

import contextlib
import glob
import gzip
import hashlib
import os
import platform
import re
import threading
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from apportion.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator


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


def beside(csv: Path, ending: str) -> Path | None:
    """Return the file that belongs to a csv, its name with another ending; None for no csv."""
    name = re.fullmatch(r"(.*)\.csv(\.gz)?", csv.name, re.DOTALL)
    return None if name is None else csv.with_name(name[1] + ending)


def save_with(
    csv: Path, table: pd.DataFrame, comments: Iterable[str], other: Path | None, content: str
) -> tuple[Path, Path]:
    """Write a table below lines with ``#``, and what belongs to it to the file `beside` it.

    Raises
    ------
    InputError
        Unless the name of the table ends in ``.csv`` or ``.csv.gz``, and both can be written.
    """
    if other is None:
        raise InputError(f"Cannot save to {csv}: the name must end in .csv or .csv.gz.")
    lines = "".join(f"# {' '.join(each.split())}\n" for each in comments)
    text = (lines + to_csv(table)).encode()
    with writing(csv):
        csv.write_bytes(gzip.compress(text, mtime=0) if csv.suffix == ".gz" else text)
        other.write_text(content, encoding="utf-8", newline="\n")
    return csv, other


WHOLE = r"0|-?[1-9][0-9]{0,17}"
"""How ids are written that are numbers, if all of a table are."""

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_MARKED = (*_FORMULA, " ")


def guarded(text: Any) -> Any:
    """Return a cell as it is written: what looks like a formula or is blank first is marked."""
    if isinstance(text, str) and text.lstrip("'").startswith(_MARKED):
        return f"'{text}"
    return text


def restored(cells: pd.Series) -> pd.Series:
    """Return a column of texts as they were before they were written."""
    marked = cells.str.startswith("'") & cells.str.lstrip("'").str.startswith(_MARKED)
    return cells.where(~marked, cells.str.slice(1)) if marked.any() else cells


def to_csv(table: pd.DataFrame, *, index: bool = True) -> str:
    """Return a table as csv, its texts guarded: cells, row labels and names of columns.

    Parameters
    ----------
    table
        Any table.
    index
        Whether row labels are written.
    """
    columns = {
        place: values.map(guarded) if values.dtype.kind == "O" else values
        for place, (_, values) in enumerate(table.items())
    }
    safe = pd.DataFrame(columns, index=table.index)
    safe.columns = _labels(table.columns)
    if index:
        safe.index = _labels(table.index)
    return safe.to_csv(index=index, lineterminator="\n")


def _labels(index: pd.Index) -> pd.Index:
    """Guard labels, level by level."""

    def safe(label: Hashable) -> Hashable:
        return tuple(map(guarded, label)) if isinstance(label, tuple) else guarded(label)

    if not any(safe(label) != label for label in index):
        return index
    if isinstance(index, pd.MultiIndex):
        levels = [index.get_level_values(level).map(guarded) for level in range(index.nlevels)]
        return pd.MultiIndex.from_arrays(levels, names=index.names)
    return pd.Index([safe(label) for label in index], name=index.name)
