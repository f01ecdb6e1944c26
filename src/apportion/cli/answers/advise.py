"""``apportion advise``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apportion.answers.advising import advise
from apportion.cli.answers.inputs import settings_given
from apportion.cli.output import say
from apportion.cli.racks import cluster_of
from apportion.cli.trace_options import fitting_options, reading_options
from apportion.experiments.sources import sources_of

if TYPE_CHECKING:
    import argparse


def run(args: argparse.Namespace) -> None:
    """Write the page, and print it."""
    log: dict[str, Any] = {"path": args.log, **reading_options(args), **fitting_options(args)}
    cluster = cluster_of(args, lambda: sources_of(log)[0].made(1.0, args.seed))
    advice = advise(
        *(log, cluster, [name.strip() for name in args.policies.split(",") if name.strip()]),
        add=args.add,
        by=args.by,
        draws=args.draws,
        seed=args.seed,
        out=args.out,
        n_jobs=args.jobs,
        command=_command(args),
        **settings_given(args),
    )
    for line in str(advice).splitlines():
        if line.startswith("  $ "):
            print(line)  # to be copied as it is
        else:
            say(line) if line else print()
    print(f"\nReport: {args.out}/advice.html (and advice.txt)")


def _command(args: argparse.Namespace) -> list[str]:
    """Return the options that say what this is about, for other commands."""
    own = {"policies", "add", "by", "draws", "out", "jobs", "log", "seed"}
    words = ["--workload", args.log]
    for name, flag in args.flags.items():
        value = getattr(args, name, None)
        if name in own or value is None or value is False or flag.startswith(("-v", "--help")):
            continue
        words += [flag, _word(value)]
    return words


def _word(value: Any) -> str:
    """Write the value of an option."""
    if isinstance(value, dict):
        return ",".join(f"{name}={each:g}" for name, each in value.items())
    if isinstance(value, list):
        return ",".join(f"{each:g}" if isinstance(each, float) else str(each) for each in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
