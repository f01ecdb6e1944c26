"""Files that are whole or absent: written beside their place, then moved into it."""

from __future__ import annotations

import io
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from apportion.csv_cells import to_csv
from apportion.errors import ApportionError, InputError, unknown_name
from apportion.report.style import plotting_style
from apportion.whole_files import replace_file

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_DOTS_PER_INCH = 110

TABLE_FORMATS = ("csv", "parquet")
"""What tables can be written as: the endings of their files."""


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
    try:
        replace_file(path, content)
    except OSError as error:
        raise InputError(f"Cannot write {str(path)!r}: {error.strerror or error}.") from error
    return path


def write_png(path: Path, figure: Figure) -> Path:
    """Replace the file of a picture in one step; see `write_bytes`."""
    stream = io.BytesIO()
    with plotting_style():
        figure.savefig(stream, format="png", dpi=_DOTS_PER_INCH)
    return write_bytes(path, stream.getvalue())


def write_text(path: Path, content: str) -> Path:
    """Replace a text file in one step, UTF-8; see `write_bytes`."""
    return write_bytes(path, content.encode())


def written_too(path: str | Path | None, content: str) -> str:
    """Return a text, once it is in a file as well if a path is given; see `write_bytes`."""
    if path is not None:
        write_text(Path(path), content)
    return content


def write_table(path: Path, table: pd.DataFrame) -> Path:
    """Replace the file of a table in one step, without its index; the ending says the format.

    Raises
    ------
    InputError
        If the folder or the file cannot be written, or for an unknown ending.
    ApportionError
        If pyarrow is not installed.
    """
    check_format(path.suffix.removeprefix("."))
    if path.suffix == ".csv":
        return write_text(path, to_csv(table, index=False))
    return write_bytes(path, table.to_parquet(index=False))


def check_format(format: str) -> None:
    """Refuse formats of tables that are unknown, or cannot be written here.

    Raises
    ------
    InputError
        For an unknown format.
    ApportionError
        If pyarrow is not installed.
    """
    if format not in TABLE_FORMATS:
        raise unknown_name("format of tables", format, TABLE_FORMATS)
    if format == "parquet" and find_spec("pyarrow") is None:
        raise ApportionError("Parquet files need pyarrow: pip install apportion[parquet].")
