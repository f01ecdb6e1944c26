"""Options of the workload: how to read a trace, what to generate, and what they stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apportion.cli.commands import (
    add_command,
    add_option,
    by_accelerator,
    comma_separated,
    finish,
    group_of,
    one_of,
    real,
    whole,
)
from apportion.cli.options import add_file, add_seed
from apportion.cli.sections import add_named, add_setting
from apportion.errors import InputError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

GENERATED = {
    "generate_jobs": 600,
    "arrivals": "poisson",
    "jobs_per_hour": 2.2,
    "days": None,
    "scale_factors": "gavel",
    "durations": "gavel",
}
"""The generated workload where no option says otherwise: it nearly fills the default cluster."""

GENERATED_FOR_RACKS = {"generate_jobs": 200, "arrivals": "batch", "jobs_per_hour": None}
"""The workload generated for racks where no option says otherwise."""

_READING: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("throughputs", "profiles", "format", "reference", "states", "columns"), str),
    "limit": whole(1),
    "missing": one_of("answer to jobs without throughputs", ("error", "drop")),
}
"""How a trace is read, in brackets behind it, and what reads each."""

_FITTING: dict[str, tuple[str, str, Callable[[str], Any]]] = {
    "too_large": (
        *("drop|error", "jobs too large for all types (drop for logs)"),
        one_of("answer to jobs that are too large", ("drop", "error")),
    ),
    "speed": ("TYPE=X,...", "times a v100 (elastic: as measured), a100=2.3", by_accelerator),
    "types": (
        *("any|recorded", "recorded: on those that the log names only"),
        one_of("answer to on which types jobs may run", ("any", "recorded")),
    ),
    "measure": ("A,B", "figures of these jobs alone, e.g. 0.4,0.9", comma_separated(real())),
}
"""How jobs are made to fit an experiment, drawn ones as well: name of the value, help, reader."""

READING_OPTIONS, FITTING_OPTIONS = tuple(_READING), tuple(_FITTING)

SETTINGS = "In brackets: see `apportion policies leases`, docs/reference/data_formats.md."
"""What the help of commands with brackets ends with."""

STEADY = (0.4, 0.9)
"""Figures of the workload that is drawn where no option says how are of these of its jobs."""


def add_trace(
    parser: argparse.ArgumentParser,
    flag: str,
    text: str = "a trace, or a csv of your own jobs",
    *,
    several: bool = False,
) -> None:
    """Add a trace and how to read it.

    Parameters
    ----------
    parser
        Of the command.
    flag, text
        The trace itself, an option or an argument.
    several
        Whether that may stand several times.
    """
    group = group_of(parser, "the workload")
    option = flag.startswith("-")
    section = flag.removeprefix("--") if option else "workload"
    text += "; how it is read in brackets: 'jobs.csv(limit=9)'" + "; several times" * several
    where: Any = group if option else parser
    add_named(where, section, "file", flag, "FILE", text, several=several)
    for name, read in _READING.items():
        add_setting(group, section, name, read, "FILE")
    for name, (metavar, text, read) in _FITTING.items():
        add_named(group, section, name, f"--{name.replace('_', '-')}", metavar, text, read)


def reading_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `read_workload` that were given, the file and the seed aside."""
    given = {name: getattr(args, name) for name in READING_OPTIONS}
    if given["states"] is not None:
        given["states"] = [word.strip() for word in given["states"].split(",") if word.strip()]
    return {name: value for name, value in given.items() if value is not None}


def fitting_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `apportion.experiments.fitted_jobs.fitted` that are told."""
    given = {name: getattr(args, name) for name in FITTING_OPTIONS}
    if given["measure"] is None and _is_drawn_as_ever(args):
        given["measure"] = list(STEADY)
    return {"too_large": None, **{name: each for name, each in given.items() if each is not None}}


def _is_drawn_as_ever(args: argparse.Namespace) -> bool:
    """Whether jobs are drawn, as many as where no option says so, and arrive one by one."""
    if "arrivals" not in args or args.arrivals == "batch":
        return False
    return args.workload is None and args.racks is None and args.generate_jobs is None


def refuse_reading_options(args: argparse.Namespace) -> None:
    """Refuse options of a trace where there is none.

    Raises
    ------
    InputError
        Naming the option.
    """
    for name in reading_options(args):
        raise InputError(f"{name} is for a workload from a file; give --workload FILE.")


def _drawing() -> dict[str, tuple[str, str, Callable[[str], Any]]]:
    """Return how a workload is drawn: name of the value, help, reader."""
    arrivals = ("poisson", "batch", "diurnal")
    at = "at a steady rate, all at once, or more by day than by night and on weekdays "
    at += "than on weekends (default: poisson; batch for racks, which have no diurnal)"
    sizes, lengths = ("single", "gavel", "philly"), ("gavel", "philly")
    return {
        "generate_jobs": ("N", _default("generate_jobs"), whole(1)),
        "arrivals": ("|".join(arrivals), at, one_of("arrivals", arrivals)),
        "jobs_per_hour": ("X", "(default: 2.2, for racks as published)", real()),
        "days": ("X", "of diurnal arrivals, in place of their rate", real(strict=True)),
        "scale_factors": (
            "|".join(sizes),
            _default("scale_factors"),
            one_of("scale factors", sizes),
        ),
        "durations": ("|".join(lengths), _default("durations"), one_of("durations", lengths)),
    }


def add_generator(parser: argparse.ArgumentParser) -> None:
    """Add how to draw a workload."""
    group = group_of(parser, "the workload")
    text = "(default: jobs=600,jobs_per_hour=2.2; arrivals=batch for racks)"
    add_named(group, "generate", "generate", "--generate", "jobs=N,...", text)
    for name, (_, _, read) in _drawing().items():
        key = "jobs" if name == "generate_jobs" else name
        add_setting(group, "generate", key, read, dest=name)


def add_kind(parser: argparse.ArgumentParser) -> None:
    """Add what the generated jobs are for."""
    kinds = ("types", "racks", "contended", "communicating", "elastic")
    text = "for several types of accelerators, for racks of one, as in the paper on contention, "
    text += "with communication profiles, or elastic"
    kind = one_of("kind of workload", kinds)
    add_option(parser, "--kind", "|".join(kinds), text, kind, "types")
    text = "of --kind communicating (default: all with communication profiles)"
    add_option(parser, "--models", "NAME,...", text)
    text = "of each job of --kind communicating (default: 2 to 6)"
    add_option(parser, "--gang-gpus", "N", text, whole(2))


def _default(name: str) -> str:
    return f"(default: {GENERATED[name]})"


def add_describe(commands: Any) -> None:
    """Add ``apportion workload describe``."""
    parser = add_command(
        commands, "describe", "workloads:describe_workload", "describe a trace in numbers"
    )
    add_trace(parser, "file", "the trace")
    add_option(parser, "--cluster", "v100=8,k80=16", "GPUs, to give the load on them")
    add_seed(parser, "for what a trace leaves open")
    finish(parser)


def add_generate(commands: Any) -> None:
    """Add ``apportion workload generate``."""
    parser = add_command(
        commands, "generate", "workloads:generate_workload", "draw a workload, write csv"
    )
    add_file(parser, "where to write the jobs; the throughputs go beside it", name="out")
    add_kind(parser)
    group = group_of(parser, "the workload")
    for name, (metavar, text, read) in _drawing().items():
        add_option(group, f"--{name.replace('_', '-')}", metavar, text, read)
    add_seed(parser, "same seed, same workload (default: 0)")
    finish(parser)
