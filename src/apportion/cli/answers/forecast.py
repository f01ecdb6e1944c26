"""``apportion forecast``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from apportion.answers.futures import forecast
from apportion.cli.answers.inputs import settings_given
from apportion.cli.inputs import read_any
from apportion.cli.output import say
from apportion.cli.racks import cluster_of
from apportion.cli.trace_options import reading_options
from apportion.errors import InputError
from apportion.report.files import write_table

if TYPE_CHECKING:
    import argparse


def run(args: argparse.Namespace) -> None:
    """Foretell, and say by when each job starts and ends."""
    if args.log is None:
        raise InputError("Give the log that durations are learnt from: --log FILE.")
    log = read_any(args.log, args.seed, reading_options(args))
    if log.elastic is True:
        raise InputError("A forecast is of jobs whose gangs have one size; this log is of others.")
    found = forecast(
        *(args.policy, args.state, log, cluster_of(args, lambda: log)),
        now_s=args.now,
        futures=args.futures,
        moments=args.moments,
        seed=args.seed,
        **settings_given(args),
    )
    for line in found.sentences():
        say(line)
    if args.out is not None:
        write_table(Path(args.out), found.table().reset_index())
