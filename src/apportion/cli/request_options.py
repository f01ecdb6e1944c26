"""Commands that serve, requests of users or a scheduler that asks, and their options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apportion.cli.commands import (
    add_command,
    add_option,
    by_name,
    finish,
    one_of,
    real,
    whole,
)
from apportion.cli.options import add_file, add_seed

if TYPE_CHECKING:
    import argparse


def add_generate_requests(commands: Any) -> None:
    """Add ``apportion requests generate``."""
    text = "draw requests for inference, write csv"
    parser = add_command(commands, "generate", "workloads:draw_requests", text)
    add_file(parser, "where to write the requests", name="out")
    _add_request_generator(parser)
    add_seed(parser, "same seed, same requests (default: 0)")
    finish(parser)


def add_serve(commands: Any) -> None:
    """Add ``apportion serve``."""
    parser = add_command(commands, "serve", "serve", "serve requests on GPUs that only serve")
    add_file(parser, "csv of requests, see `apportion requests generate`")
    _add_columns(parser)
    _add_serving(parser)
    add_option(parser, "--out", "DIR", "write the tables, and a picture")
    finish(parser)


def _add_request_generator(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("how often they come")
    text = "requests/s on average (default: 0.37; of --rate-file, as measured)"
    add_option(group, "--rate", "X", text, real(strict=True))
    text = "csv of a measured rate, columns t_s and rate_rps, in place of a plain day and night"
    add_option(group, "--rate-file", "FILE", text)
    _add_number(group, "hours", 24.0, "how long", strict=True)
    _add_number(group, "noise", 0.2, "of the rate: deviation of its logarithm, anew every 300 s")
    _add_number(group, "spikes-per-day", 0.0, "when the rate is threefold for 600 s")
    group = parser.add_argument_group("what they ask")
    add_option(group, "--services", "N", "the k-th is asked in proportion to 1 / k^z", whole(1), 6)
    _add_number(group, "zipf", 1.0, "the exponent z")
    _add_number(group, "mean-duration", 5.0, "seconds on one GPU", strict=True)
    shapes = ("constant", "uniform", "lognormal")
    add_option(
        group,
        "--durations",
        "|".join(shapes),
        "around their mean",
        one_of("shape of durations", shapes),
        "uniform",
    )
    _add_number(group, "spread", 0.5, "of durations around their mean")
    _add_slo(group)


def _add_serving(parser: argparse.ArgumentParser) -> None:
    """Add the GPUs that serve requests, and how they do."""
    group = parser.add_argument_group("the GPUs")
    add_option(group, "--gpus", "N", "how many", whole(1))
    group.add_argument(
        "--fewest", action="store_true", help="in place of --gpus: find the fewest that do"
    )
    text = "share of requests that must end within their SLO, with --fewest (default: 0.99)"
    add_option(group, "--attainment", "X", text, real(strict=True))
    add_option(group, "--gpus-per-machine", "N", "", whole(1), 4)
    _add_number(group, "cold-start", 6.0, "seconds until a service is loaded")
    _add_number(group, "protect", 1.0, "times as long as DeepBoot keeps GPUs for a service")
    add_option(group, "--services-per-gpu", "N", "that may be loaded at a time", whole(1), 1)
    _add_slo(group)


def _add_columns(parser: argparse.ArgumentParser) -> None:
    """Add what columns are called in a file of one's own."""
    text = "names in the file: arrival_s=TIMESTAMP,context_tokens=ContextTokens"
    add_option(parser, "--columns", "OURS=THEIRS,...", text, by_name)


def _add_slo(group: argparse._ArgumentGroup) -> None:
    text = "each request should end within so many times its duration (default: no SLO)"
    add_option(group, "--slo-factor", "X", text, real(strict=True))


def _add_number(
    group: argparse._ArgumentGroup, name: str, default: float, text: str, *, strict: bool = False
) -> None:
    group.add_argument(
        f"--{name}",
        type=real(strict=strict),
        default=default,
        metavar="X",
        help=f"{text} (default: %(default)g)",
    )


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
