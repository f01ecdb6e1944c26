"""Pages of HTML that load nothing from anywhere, made of the templates beside this module.

Style sheet, for screens and paper, and script stand inside each page. Needs jinja2.
"""

from __future__ import annotations

import logging
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from apportion.errors import ApportionError
from apportion.report.files import write_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from jinja2 import Environment

    from apportion.statistics.typeset import HumanTable

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
