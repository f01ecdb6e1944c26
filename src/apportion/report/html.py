"""The report: one HTML file with tables and plots inside, which loads nothing from anywhere."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from apportion.report.page_style import CSS
from apportion.report.sections import sections_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apportion.experiments import Comparison

__all__ = ["report_page"]


def report_page(comparison: Comparison, sections: Iterable[str] | None = None) -> str:
    """Return the report of a comparison as one HTML page.

    Parameters
    ----------
    comparison
        Finished runs, in the order of the report.
    sections
        Names out of `apportion.report.REPORT_SECTIONS`; all that there are by default.
    """
    cluster, workload = comparison.cluster, comparison.workload
    name = escape(str(workload.name))
    gpus = ", ".join(f"{count} {kind}" for kind, count in cluster.gpus.items())
    subtitle = escape(f"{workload.name}: {len(workload.jobs):,} jobs on {gpus}")
    made = sections_of(comparison, sections)
    body = [
        f"<header><h1>Scheduling policies compared</h1><p>{subtitle}</p></header>",
        *(f"<section><h2>{title}</h2>{content}</section>" for title, content in made),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>apportion: {name}</title><style>{CSS}</style></head>\n<body><main>\n"
        + "\n".join(body)
        + "\n</main></body>\n</html>\n"
    )
