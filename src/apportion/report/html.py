"""The report: one HTML file with tables and plots inside, which loads nothing from anywhere.

Its style sheet, for screens and paper, and its script are inline.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from apportion.report.script import SCRIPT
from apportion.report.sections import sections_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apportion.experiments import Comparison

__all__ = ["CSS", "page_of", "report_page"]

CSS = """
:root { color-scheme: light; }
body { margin: 0; background: #f6f7f9; color: #1d2430;
  font: 15px/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 1240px; margin: 0 auto; padding: 24px; }
h1 { font-size: 26px; margin: 0; }
h2 { font-size: 18px; margin: 0 0 12px; }
h3 { font-size: 15px; margin: 0 0 6px; }
header p { margin: 4px 0 20px; color: #556; }
section { background: #fff; border: 1px solid #e2e5ea; border-radius: 8px; padding: 18px 20px;
  margin: 0 0 18px; }
.wide { overflow-x: auto; }
.found { margin: 0; padding-left: 18px; font-size: 16px; }
table { border-collapse: collapse; }
th, td { padding: 5px 10px; border-bottom: 1px solid #eceef2; text-align: right;
  white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
thead th { border-bottom: 2px solid #c9ced8; vertical-align: bottom; }
small { font-weight: normal; color: #667; }
table.summary { width: 100%; font-variant-numeric: tabular-nums; }
td.best { font-weight: 700; color: #00543c; background: #e7f5ef; }
td.near { color: #00543c; }
dl.pairs { display: grid; grid-template-columns: repeat(auto-fill, minmax(330px, 1fr));
  gap: 0 32px; margin: 0 0 14px; }
dl.pairs div { display: flex; justify-content: space-between; gap: 12px; padding: 4px 0;
  border-bottom: 1px solid #eceef2; }
dt { color: #445; }
dd { margin: 0; font-weight: 600; text-align: right; flex: 0 0 auto; max-width: 70%;
  overflow-wrap: anywhere; }
.legend, .notes { color: #556; font-size: 13px; margin: 10px 0 0; }
.notes { padding-left: 18px; }
.plots { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 18px; }
@media (max-width: 900px) { .plots { grid-template-columns: minmax(0, 1fr); } }
figure { margin: 0; min-width: 0; }
figure.scale_factors, figure.received_time, figure.tiers, figure.timeline, figure.shared_link,
figure.affinity_graph, figure.day, figure.gantt
{ grid-column: 1 / -1; overflow-x: auto; --least: 860px; }
figure svg { width: 100%; height: auto; min-width: var(--least, 0); }
pre { background: #f1f3f6; padding: 12px; border-radius: 6px; white-space: pre-wrap;
  overflow-wrap: anywhere; }
code { font-size: 13px; overflow-wrap: anywhere; }
.clicks { cursor: pointer; }
th[aria-sort="ascending"]::before { content: "\2191 "; }
th[aria-sort="descending"]::before { content: "\2193 "; }
.off { opacity: 0.35; }
.failed { color: #9c1c1c; font-size: 13px; margin: 6px 0 0; }
@media (max-width: 600px) { main { padding: 10px; } section { padding: 12px; }
  figure { overflow-x: auto; } figure svg { min-width: var(--least, 440px); }
  dl.pairs { grid-template-columns: minmax(0, 1fr); } }
@media screen and (prefers-color-scheme: dark) {
  :root { color-scheme: dark; }
  body { background: #14171c; color: #e3e6ea; }
  section { background: #1d2127; border-color: #353b44; }
  th, td, dl.pairs div { border-color: #353b44; }
  thead th { border-color: #59616d; }
  header p, .legend, .notes, small, dt { color: #a9b1bc; }
  td.best { color: #8fe0bd; background: #15392c; }
  td.near { color: #8fe0bd; }
  .failed { color: #ff9c8f; }
  pre { background: #14171c; }
  figure svg { background: #fff; border-radius: 4px; }
}
@page { margin: 12mm; }
@media print {
  body { background: none; font-size: 9.5pt; print-color-adjust: exact; }
  main { max-width: none; padding: 0; }
  section { border: 0; border-radius: 0; padding: 0; }
  h2, h3, thead { break-after: avoid; }
  tr, figure, dl.pairs div { break-inside: avoid; }
  .wide { overflow: visible; }
  figure svg { min-width: 0; }
  table.summary { font-size: 7pt; }
  table.summary th, table.summary td { padding: 3px 4px; white-space: normal; }
  table.summary td + td { white-space: nowrap; }
  table.summary td:first-child { overflow-wrap: anywhere; }
  .plots { grid-template-columns: repeat(2, minmax(0, 1fr)); }
  dl.pairs { grid-template-columns: repeat(2, minmax(0, 1fr)); }
}
""".strip()


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
    gpus = ", ".join(f"{count} {kind}" for kind, count in cluster.gpus.items())
    subtitle = f"{workload.name}: {len(workload.jobs):,} jobs on {gpus}"
    made = sections_of(comparison, sections)
    return page_of(str(workload.name), "Scheduling policies compared", subtitle, made)


def page_of(name: str, heading: str, subtitle: str, sections: Iterable[tuple[str, str]]) -> str:
    """Return sections, each a title and HTML, as one page that loads nothing."""
    body = [
        f"<header><h1>{escape(heading)}</h1><p>{escape(subtitle)}</p></header>",
        *(f"<section><h2>{title}</h2>{content}</section>" for title, content in sections),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>apportion: {escape(name)}</title><style>{CSS}</style></head>\n<body><main>\n"
        + "\n".join(body)
        + f"\n</main><script>{SCRIPT}</script></body>\n</html>\n"
    )
