"""Options of ``apportion decide``."""

from __future__ import annotations

from typing import Any

from apportion.cli.commands import add_command, finish
from apportion.cli.options import add_file
from apportion.cli.values import real, whole


def add_decide(commands: Any) -> None:
    """Add ``apportion decide``."""
    text = "answer a scheduler: events in, decisions out, in JSON"
    parser = add_command(commands, "decide", "service.decide", text)
    parser.add_argument(
        "--policy",
        default="max_min_fairness",
        metavar="NAME",
        help="a policy or scheduler of `apportion policies` (default: %(default)s)",
    )
    parser.add_argument("--cluster", metavar="v100=8,k80=16", help="GPUs by type at the start")
    parser.add_argument(
        "--gpus-per-machine",
        type=whole(1),
        default=4,
        metavar="N",
        help="of each type (default: %(default)s)",
    )
    parser.add_argument(
        "--store",
        metavar="FILE",
        help="where every message is kept before it is answered (default: nowhere)",
    )
    parser.add_argument(
        "--time-limit",
        type=real(strict=True),
        metavar="S",
        help="seconds after which the last answer is given, with its age (default: none)",
    )
    parser.add_argument(
        "--references",
        metavar="FILE",
        help="csv of steps/s by job type and accelerator: speeds are estimated, and learnt",
    )
    parser.add_argument("--schema", action="store_true", help="print the schema of messages")
    group = parser.add_argument_group("over HTTP, in place of lines")
    group.add_argument(
        "--http", type=whole(1, 65535), metavar="PORT", help="needs apportion[service]"
    )
    group.add_argument("--host", metavar="ADDRESS", help="(default: 127.0.0.1, this machine only)")
    group.add_argument(
        "--token-file", metavar="FILE", help="holds the token that requests must bring"
    )
    group.add_argument("--most-per-s", type=real(strict=True), metavar="X", help="(default: 1000)")
    finish(parser)


def add_export(commands: Any) -> None:
    """Add ``apportion export``."""
    text = "write an allocation as Slurm, Kueue, KAI or Volcano take it"
    parser = add_command(commands, "export", "service.export", text)
    parser.add_argument("system", metavar="slurm|kueue|kai|volcano")
    add_file(parser, "allocation, a .json of `apportion solve --out`")
    parser.add_argument(
        "--jobs-table", required=True, metavar="FILE", help="csv: job id, then columns of jobs"
    )
    parser.add_argument("--by", default="entity", metavar="COLUMN", help="(default: entity)")
    parser.add_argument(
        "--cluster", metavar="v100=8,k80=16", help="divide all of these, idle GPUs too"
    )
    parser.add_argument(
        "--reserve",
        type=whole(1),
        metavar="MIN",
        help="of slurm: reservations of whole nodes for so long, in place of fair shares",
    )
    parser.add_argument(
        "--gpus-per-machine", type=whole(1), metavar="N", help="of --reserve (default: 4)"
    )
    parser.add_argument("--out", metavar="FILE", help="(default: to the terminal)")
    finish(parser)
