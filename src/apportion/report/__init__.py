"""What people read: summary tables, plots and the self-contained HTML report.

Nothing here simulates; everything takes finished runs. Plots need matplotlib and pages of HTML
jinja2 (``pip install apportion[plot]``); tables do without, and so does a library that embeds this.
A page without matplotlib has tables only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.faces import lazily

if TYPE_CHECKING:
    from apportion.report.built_in import Section as Section
    from apportion.report.built_in import summary_html as summary_html
    from apportion.report.day_plots import day_figure as day_figure
    from apportion.report.gantt import gantt_figure as gantt_figure
    from apportion.report.plots import PLOT_KINDS as PLOT_KINDS
    from apportion.report.plots import kinds_of as kinds_of
    from apportion.report.plots import plot as plot
    from apportion.report.sections import REPORT_SECTIONS as REPORT_SECTIONS
    from apportion.report.sections import report_page as report_page
    from apportion.report.tables import human_table as human_table
    from apportion.statistics.typeset import HumanTable as HumanTable


if not TYPE_CHECKING:  # or a checker would take any name for one of these
    __getattr__ = lazily(__name__)
