"""``apportion whatif``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from apportion.answers.other_clusters import what_if
from apportion.cli.answers.inputs import asked_about
from apportion.cli.output import say
from apportion.report.files import write_page, write_table

if TYPE_CHECKING:
    import argparse


def run(args: argparse.Namespace) -> None:
    """Simulate the changes, and say what each does."""
    answer = what_if(
        **asked_about(args),
        add=args.add,
        remove=args.remove,
        rates=args.rate,
        seeds=range(args.first_seed, args.first_seed + args.draws),
        out=args.out,
        n_jobs=args.jobs,
    )
    write_table(Path(args.out) / "whatif.csv", answer.table(args.level))
    for line in [*answer.sentences(args.level), *answer.dollars(), f"({answer.rests_on}.)"]:
        say(line)
    files = "whatif.csv, runs.csv, summary.csv, sweep.json, runs.jsonl"
    page = write_page(Path(args.out) / "whatif.html", lambda: answer.to_html(level=args.level))
    say(f"Report: {page[0]} (and {files})" if page else f"Files: {files} in {args.out}")
