"""``apportion recommend``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from apportion.answers.evidence import usual_looks
from apportion.answers.fewest import fewest_for_wait
from apportion.answers.race import recommend
from apportion.cli.answers.inputs import asked_about
from apportion.cli.output import say
from apportion.errors import InputError
from apportion.report.files import write_table

if TYPE_CHECKING:
    import argparse


def run(args: argparse.Namespace) -> None:
    """Race policies, or look for the fewest GPUs, and say what was found."""
    what = asked_about(args)
    how = {"out": args.out, "n_jobs": args.jobs}
    if args.goal is not None:
        policies = what.pop("policies")
        few = fewest_for_wait(
            policies[0], **what, goal=args.goal, accelerator=args.of, draws=args.draws, **how
        )
        write_table(Path(args.out) / "fewest.csv", few.table)
        say(few.sentence())
        print(f"Files: fewest.csv in {args.out}")
        return
    if args.of is not None:
        raise InputError("--of is for --goal; give both, or leave it out.")
    looks = usual_looks(args.draws)
    answer = recommend(**what, figure=args.figure, looks=looks, **how)
    write_table(Path(args.out) / "race.csv", answer.table().reset_index())
    for line in answer.sentences():
        say(line)
    print(f"Files: race.csv, runs.jsonl in {args.out}")
