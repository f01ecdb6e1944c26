"""The commands `decide` and `export`, and their options."""

from __future__ import annotations

from typing import Any

from apportion.cli.commands import (
    add_command,
    add_option,
    finish,
    real,
    whole,
)
from apportion.cli.options import add_file


def add_decide(commands: Any) -> None:
    """Add ``apportion decide``."""
    text = "answer a scheduler: events in, decisions out, in JSON"
    parser = add_command(commands, "decide", "for_schedulers:run_decide", text)
    text = "a policy or scheduler of `apportion policies`"
    add_option(parser, "--policy", "NAME", text, usual="max_min_fairness")
    add_option(parser, "--cluster", "v100=8,k80=16", "GPUs by type at the start")
    add_option(parser, "--gpus-per-machine", "N", "of each type", whole(1), 4)
    text = "where every message is kept before it is answered (default: nowhere)"
    add_option(parser, "--store", "FILE", text)
    text = "seconds after which the last answer is given, with its age (default: none)"
    add_option(parser, "--time-limit", "S", text, real(strict=True))
    text = "csv of steps/s by job type and accelerator: speeds are estimated, and learnt"
    add_option(parser, "--references", "FILE", text)
    parser.add_argument("--schema", action="store_true", help="print the schema of messages")
    group = parser.add_argument_group("over HTTP, in place of lines")
    add_option(group, "--http", "PORT", "needs apportion[service]", whole(1, 65535))
    add_option(group, "--host", "ADDRESS", "(default: 127.0.0.1, this machine only)")
    add_option(group, "--token-file", "FILE", "holds the token that requests must bring")
    add_option(group, "--most-per-s", "X", "(default: 1000)", real(strict=True))
    finish(parser)


def add_export(commands: Any) -> None:
    """Add ``apportion export``."""
    text = "write an allocation as Slurm, Kueue, KAI or Volcano take it"
    parser = add_command(commands, "export", "for_schedulers:run_export", text)
    parser.add_argument("system", metavar="slurm|kueue|kai|volcano")
    add_file(parser, "allocation, a .json of `apportion solve --out`")
    parser.add_argument(
        "--jobs-table", required=True, metavar="FILE", help="csv: job id, then columns of jobs"
    )
    parser.add_argument("--by", default="entity", metavar="COLUMN", help="(default: entity)")
    add_option(parser, "--cluster", "v100=8,k80=16", "divide all of these, idle GPUs too")
    text = "of slurm: reservations of whole nodes for so long, in place of fair shares"
    add_option(parser, "--reserve", "MIN", text, whole(1))
    add_option(parser, "--gpus-per-machine", "N", "of --reserve (default: 4)", whole(1))
    add_option(parser, "--out", "FILE", "(default: to the terminal)")
    finish(parser)
