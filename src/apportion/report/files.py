"""Files that are whole or absent, and pages of HTML that load nothing from anywhere.

Style sheet, for screens and paper, and script stand inside each page. Needs jinja2.
"""

from __future__ import annotations

import logging
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apportion.errors import ApportionError, InputError, unknown_name
from apportion.whole_files import replace_file, to_csv

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pandas as pd
    from jinja2 import Environment

    from apportion.statistics.typeset import HumanTable


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


logger = logging.getLogger(__name__)

NO_PAGES = "Pages of HTML need jinja2: pip install apportion[plot]."


def has_templates() -> bool:
    """Whether there is jinja2, without which a notebook shows results as text."""
    return find_spec("jinja2") is not None


@cache
def _templates() -> Environment:
    """Return the templates, which escape every text that is not said to be HTML."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise ApportionError(NO_PAGES) from error
    return Environment(
        loader=PackageLoader("apportion.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def part(name: str, *values: Any) -> str:
    """Return a part of a page, one of the macros of ``parts.html``, as HTML.

    Raises
    ------
    ApportionError
        If jinja2 is not installed.
    """
    made = getattr(_templates().get_template("parts.html").module, name)(*values)
    return str(made).strip()


def table_html(table: HumanTable, legend: str = "", title: str = "") -> str:
    """Return a table as HTML, with what its marks and abbreviations mean.

    Parameters
    ----------
    table
        The table.
    legend
        What stands before its own legend.
    title
        What stands above it.
    """
    rows = [zip(*row, strict=True) for row in zip(table.cells, table.marks, strict=True)]
    titles = zip(table.header, table.units, strict=True)
    return part("table", titles, rows, " ".join(filter(None, [legend, table.legend])), title)


def page_of(name: str, heading: str, subtitle: str, sections: Iterable[tuple[str, str]]) -> str:
    """Return sections, each a title and HTML, as one page that loads nothing.

    Raises
    ------
    ApportionError
        If jinja2 is not installed.
    """
    page = _templates().get_template("page.html")
    return page.render(name=name, heading=heading, subtitle=subtitle, sections=list(sections))


def write_page(path: Path, make: Callable[[], str]) -> list[Path]:
    """Make a page and write it, and return its path.

    Without jinja2 nothing is written and a warning says so: what was computed is not lost for it.
    A page of an earlier computation does not stay.
    """
    if has_templates():
        return [write_text(path, make())]
    path.unlink(missing_ok=True)
    logger.warning("There is no %s. %s", path.name, NO_PAGES)
    return []
