"""Sections of the report: those of the package, and those of one's own or of other packages."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from apportion.errors import InputError, written
from apportion.own_code import answered_by, place_of, said_with_place
from apportion.registry import Registry
from apportion.report.built_in import FIRST, LAST, Section
from apportion.report.files import page_of, part
from apportion.report.style import inline_svg

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from apportion.experiments import Comparison

logger = logging.getLogger(__name__)

REPORT_SECTIONS: Registry[Callable[[Comparison], Section | None]] = Registry(
    "report section", "apportion.report_sections", {**FIRST, **LAST}, callable
)
"""Makers of sections by name: each is given the comparison, and returns None for no section.

One of one's own is added by assigning it. All that there are stand in every report, those of one's
own and of installed packages behind the plots.
"""


def report_page(comparison: Comparison, sections: Iterable[str] | None = None) -> str:
    """Return the report of a comparison as one HTML page.

    Parameters
    ----------
    comparison
        Finished runs, in the order of the report.
    sections
        Names out of `apportion.report.REPORT_SECTIONS`; all that there are by default.

    Raises
    ------
    ApportionError
        If jinja2 is not installed.
    """
    cluster, workload = comparison.cluster, comparison.workload
    gpus = ", ".join(f"{count} {kind}" for kind, count in cluster.gpus.items())
    subtitle = f"{workload.name}: {len(workload.jobs):,} jobs on {gpus}"
    made = sections_of(comparison, sections)
    return page_of(str(workload.name), "Scheduling policies compared", subtitle, made)


def sections_of(
    comparison: Comparison, names: Iterable[str] | None = None
) -> list[tuple[str, str]]:
    """Return titles and contents of the sections of a report, as HTML, in order.

    One that fails says so in its place: the others, and what was computed, are not lost.

    Parameters
    ----------
    comparison
        What it is about.
    names
        Of `REPORT_SECTIONS`, in the order wanted; all that there are by default.

    Raises
    ------
    InputError
        For an unknown name, before any section is made.
    """
    if names is None:
        REPORT_SECTIONS.load()
        names = [*FIRST, *REPORT_SECTIONS.added(), *LAST]
    makers = {name: REPORT_SECTIONS[name] for name in names}
    made = (_made(name, make, comparison) for name, make in makers.items())
    return [section for section in made if section is not None]


def _made(
    name: str, make: Callable[[Comparison], Section | None], comparison: Comparison
) -> tuple[str, str] | None:
    """Return title and HTML of one section; of one that fails, what it says."""
    try:
        section = make(comparison)
        return None if section is None else _in_html(name, section)
    except Exception as error:  # of a section of the user's, behind hours of simulation
        if name in FIRST or name in LAST:
            raise
        whose = "" if place_of(error) else answered_by(make)
        said = f"{type(error).__name__}: {said_with_place(error)}{whose}"
        logger.warning("The report section %r failed: %s", name, said)
        return name, part("failures", [said])


def _in_html(name: str, section: Section) -> tuple[str, str]:
    """Return title and HTML of a section.

    Raises
    ------
    InputError
        If it is no section, or its content is nothing that stands on a page.
    """
    if not (isinstance(section, Section) and isinstance(section.title, str)):
        raise InputError(
            f"The report section {name!r} returns {written(section)}; it must return a "
            f"Section(title, content), or None."
        )
    several = section.content if isinstance(section.content, (list, tuple)) else [section.content]
    parts = [_part(f"{name}-{place}", each) for place, each in enumerate(several)]
    return section.title, "".join(parts)


def _part(name: str, content: Any) -> str:
    """Return HTML as it is, a table, or a figure, whose ids begin with the name."""
    if isinstance(content, str):
        return content
    if hasattr(content, "savefig"):
        return part("figures", [(name, inline_svg(content, name))])
    if hasattr(content, "to_html"):
        table = content.to_html(index=False, border=0, na_rep="-", float_format="{:,.4g}".format)
        return part("frame", table)
    raise InputError(
        f"The report section {name.rpartition('-')[0]!r} has the content {written(content)}; it "
        f"must be HTML, a DataFrame, a matplotlib figure, or a list of these."
    )
