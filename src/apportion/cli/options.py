"""Groups of options that several commands share."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from apportion.errors import unknown_name

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "add_cluster",
    "add_file",
    "add_generator",
    "add_simulation",
    "add_trace",
    "ending",
    "whole",
]

GENERATED = {
    "generate_jobs": 200,
    "jobs_per_hour": 20.0,
    "scale_factors": "gavel",
    "durations": "gavel",
}
"""The generated workload where no option says otherwise: long queues at its peak, quickly run."""


def add_file(parser: argparse.ArgumentParser, text: str, name: str = "file") -> None:
    """Add the file that a command is about."""
    parser.add_argument(name, metavar="FILE", help=text)


def add_trace(parser: argparse.ArgumentParser, option: str | None = None) -> None:
    """Add how to read a trace; `option` names the trace itself where it is not the argument."""
    group = parser.add_argument_group("a workload from a file")
    if option is not None:
        group.add_argument(option, metavar="FILE", help="a trace, or a csv of your own jobs")
    group.add_argument(
        "--throughputs", metavar="FILE", help="steps/s of the job types, csv or json"
    )
    group.add_argument("--format", metavar="NAME", help="of the trace (default: recognise it)")
    group.add_argument("--limit", type=whole(1), metavar="N", help="only the first N jobs")
    group.add_argument(
        "--too-large",
        type=_one_of("answer to jobs that are too large", ("drop", "error")),
        metavar="drop|error",
        help="jobs with more GPUs than any type has (default: drop those of traces that tell no "
        "job types, recorded on other clusters; else error)",
    )


def add_generator(parser: argparse.ArgumentParser) -> None:
    """Add how to draw a workload."""
    group = parser.add_argument_group("a generated workload")
    group.add_argument(
        "--generate-jobs", type=whole(1), metavar="N", help=_default("generate_jobs")
    )
    group.add_argument("--jobs-per-hour", type=float, metavar="X", help=_default("jobs_per_hour"))
    for name, choices in (
        ("scale_factors", ("single", "gavel", "philly")),
        ("durations", ("gavel", "philly")),
    ):
        group.add_argument(
            f"--{name.replace('_', '-')}",
            type=_one_of(name.replace("_", " "), choices),
            metavar="|".join(choices),
            help=_default(name),
        )


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """Add the cluster to simulate."""
    group = parser.add_argument_group("the cluster")
    group.add_argument(
        "--cluster",
        default="v100=36,p100=36,k80=36",
        metavar="TYPE=GPUS,...",
        help="(default: %(default)s)",
    )
    group.add_argument(
        "--gpus-per-machine", type=whole(1), default=4, metavar="N", help="(default: %(default)s)"
    )


def add_simulation(parser: argparse.ArgumentParser) -> None:
    """Add the settings of the simulator."""
    group = parser.add_argument_group("the simulation")
    mechanisms = ("rounds", "ideal")
    group.add_argument(
        "--mechanism",
        type=_one_of("mechanism", mechanisms),
        default="rounds",
        metavar="|".join(mechanisms),
        help="in rounds, or shares exactly as computed (default: %(default)s)",
    )
    seconds = {
        "round_seconds": (360.0, "length of a round"),
        "resolve_seconds": (0.0, "least time between two solves"),
        "preemption_overhead_seconds": (0.0, "lost when a job starts, resumes or moves"),
    }
    for name, (default, text) in seconds.items():
        group.add_argument(
            f"--{name.replace('_', '-')}",
            type=float,
            default=default,
            metavar="S",
            help=f"{text} (default: {default:g})",
        )
    group.add_argument(
        "--placement", default="consolidated", metavar="NAME", help="(default: %(default)s)"
    )
    answers = {
        "placement_sensitive": ("no", "slow down gangs that are split over machines"),
        "carry_over": (None, "keep what jobs are owed at a new solve (yes, if on every event)"),
    }
    for name, (answer, text) in answers.items():
        group.add_argument(
            f"--{name.replace('_', '-')}",
            type=_one_of(name.replace("_", " "), ("yes", "no")),
            default=answer,
            metavar="yes|no",
            help=text if answer is None else f"{text} (default: {answer})",
        )
    group.add_argument(
        "--seed", type=whole(0), default=0, metavar="N", help="of everything random (default: 0)"
    )


def ending(*valid: str) -> Callable[[str], str]:
    """Return a check that a file name ends in one of the given endings."""

    def check(name: str) -> str:
        if not name.endswith(valid):
            raise argparse.ArgumentTypeError(f"{name!r} must end in {' or '.join(valid)}")
        return name

    return check


def whole(least: int) -> Callable[[str], int]:
    """Return a check that a word is a whole number, not below the least."""

    def check(word: str) -> int:
        if not word.isdecimal() or int(word) < least:
            raise argparse.ArgumentTypeError(f"{word!r} must be a whole number >= {least}")
        return int(word)

    return check


def _one_of(kind: str, valid: tuple[str, ...]) -> Callable[[str], str]:
    """Return a check that a word is one of the valid ones; argparse knows no nearest name."""

    def check(word: str) -> str:
        if word not in valid:
            raise argparse.ArgumentTypeError(str(unknown_name(kind, word, valid)).rstrip("."))
        return word

    return check


def _default(name: str) -> str:
    return f"(default: {GENERATED[name]})"
