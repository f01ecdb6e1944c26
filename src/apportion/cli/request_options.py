"""Commands on requests for inference, and their options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apportion.cli.commands import add_alias, add_command, finish
from apportion.cli.options import add_file, add_seed
from apportion.cli.values import by_accelerator, by_name, number_or_by_type, one_of, real, whole

if TYPE_CHECKING:
    import argparse


def add_generate_requests(commands: Any) -> None:
    """Add ``apportion requests generate``."""
    text = "draw requests for inference, write csv"
    parser = add_command(commands, "generate", "requests_generate", text)
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
    _add_model(parser)
    _add_training(parser)
    parser.add_argument("--out", metavar="DIR", help="write the tables, and a picture")
    finish(parser)


def _add_request_generator(parser: argparse.ArgumentParser) -> None:
    """Add how to draw requests."""
    group = parser.add_argument_group("how often they come")
    group.add_argument(
        "--rate",
        type=real(strict=True),
        metavar="X",
        help="requests/s on average (default: 0.37; of --rate-file, as measured)",
    )
    group.add_argument(
        "--rate-file",
        metavar="FILE",
        help="csv of a measured rate, columns t_s and rate_rps, in place of a plain day and night",
    )
    _add_number(group, "hours", 24.0, "how long", strict=True)
    _add_number(group, "noise", 0.2, "of the rate: deviation of its logarithm, anew every 300 s")
    _add_number(group, "spikes-per-day", 0.0, "when the rate is threefold for 600 s")
    group = parser.add_argument_group("what they ask")
    group.add_argument(
        "--services",
        type=whole(1),
        default=6,
        metavar="N",
        help="the k-th is asked in proportion to 1 / k^z (default: %(default)s)",
    )
    _add_number(group, "zipf", 1.0, "the exponent z")
    _add_number(group, "mean-duration", 5.0, "seconds on one GPU", strict=True)
    shapes = ("constant", "uniform", "lognormal")
    group.add_argument(
        "--durations",
        type=one_of("shape of durations", shapes),
        default="uniform",
        metavar="|".join(shapes),
        help="around their mean (default: %(default)s)",
    )
    _add_number(group, "spread", 0.5, "of durations around their mean")
    _add_slo(group)


def _add_serving(parser: argparse.ArgumentParser) -> None:
    """Add the GPUs that serve requests, and how they do."""
    group = parser.add_argument_group("the GPUs")
    group.add_argument(
        "--gpus",
        type=number_or_by_type,
        metavar="N|TYPE=N,...",
        help="how many; with --model by type, with --fewest too at most so many",
    )
    group.add_argument(
        "--fewest", action="store_true", help="in place of --gpus: find the fewest that do"
    )
    group.add_argument(
        "--attainment",
        type=real(strict=True),
        metavar="X",
        help="share of requests that must end within their SLO, with --fewest (default: 0.99)",
    )
    group.add_argument(
        "--gpus-per-machine",
        dest="gpus_per_node",
        type=whole(1),
        default=4,
        metavar="N",
        help="(default: %(default)s)",
    )
    add_alias(parser, "--gpus-per-node", "--gpus-per-machine")
    _add_number(group, "cold-start", 6.0, "seconds until a service is loaded")
    _add_number(group, "protect", 1.0, "times as long as DeepBoot keeps GPUs for a service")
    group.add_argument(
        "--services-per-gpu",
        type=whole(1),
        default=1,
        metavar="N",
        help="that may be loaded at a time (default: %(default)s)",
    )
    _add_slo(group)


def _add_columns(parser: argparse.ArgumentParser) -> None:
    """Add what columns are called in a file of one's own."""
    parser.add_argument(
        "--columns",
        type=by_name,
        metavar="OURS=THEIRS,...",
        help="names in the file: arrival_s=TIMESTAMP,context_tokens=ContextTokens",
    )


def _add_model(parser: argparse.ArgumentParser) -> None:
    """Add replicas of a model that serves in batches."""
    group = parser.add_argument_group("replicas of a model that serves requests in batches")
    group.add_argument(
        "--model", metavar="FILE", help="csv of seconds by phase, size and type: phase,size,a100"
    )
    group.add_argument(
        "--gpus-per-replica",
        type=number_or_by_type,
        default=1,
        metavar="N|TYPE=N,...",
        help="all on one machine (default: %(default)s)",
    )
    group.add_argument(
        "--cache-tokens",
        type=number_or_by_type,
        metavar="N|TYPE=N,...",
        help="most tokens of its requests in a replica's memory (default: no limit)",
    )
    group.add_argument("--batch", type=whole(1), metavar="N", help="most requests at a time")
    group.add_argument(
        "--slo",
        metavar="FIGURE=SECONDS,...",
        type=by_name,
        help="with --fewest, percentiles of delay, ttft, tpot, request: p99_ttft_s=2",
    )
    group.add_argument(
        "--prices", type=by_accelerator, metavar="TYPE=X,...", help="US dollars of a GPU-hour"
    )


def _add_training(parser: argparse.ArgumentParser) -> None:
    """Add elastic jobs that idle GPUs might be lent to."""
    group = parser.add_argument_group("elastic training, to tell what lending idle GPUs is worth")
    group.add_argument(
        "--training-gpus", type=number_or_by_type, metavar="N|TYPE=N", help="GPUs of its own"
    )
    group.add_argument(
        "--training-jobs",
        type=whole(1),
        metavar="N",
        help="so many generated jobs, which arrive as long as requests do",
    )
    group.add_argument("--training", metavar="FILE", help="in place of them: a csv of elastic jobs")
    group.add_argument("--profiles", metavar="DIR|CSV", help="of their applications")
    add_seed(group, "of generated jobs (default: 0)")


def _add_slo(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--slo-factor",
        type=real(strict=True),
        metavar="X",
        help="each request should end within so many times its duration (default: no SLO)",
    )


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
