"""What people read: summary tables, plots and the self-contained HTML report.

Nothing here simulates; everything takes finished runs. Plots need matplotlib and pages of HTML
jinja2 (``pip install apportion[plot]``); tables do without, and so does a library that embeds this.
A page without matplotlib has tables only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.faces import lazily

if TYPE_CHECKING:
    from apportion.report.built_in import Section, summary_html
    from apportion.report.day_plots import day_figure
    from apportion.report.gantt import gantt_figure
    from apportion.report.plots import PLOT_KINDS, kinds_of, plot
    from apportion.report.sections import REPORT_SECTIONS, report_page
    from apportion.report.tables import human_table
    from apportion.statistics.typeset import HumanTable

__all__ = [
    "PLOT_KINDS",
    "REPORT_SECTIONS",
    "HumanTable",
    "Section",
    "day_figure",
    "gantt_figure",
    "human_table",
    "kinds_of",
    "plot",
    "report_page",
    "summary_html",
]

if not TYPE_CHECKING:  # or a checker would take any name for one of these
    __getattr__ = lazily(__name__)
