"""Options of how to read a trace, and the arguments of `read_workload` that they stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apportion.cli.commands import (
    add_alias,
    by_accelerator,
    comma_separated,
    group_of,
    one_of,
    real,
    whole,
)
from apportion.cli.sections import add_setting
from apportion.errors import InputError

if TYPE_CHECKING:
    import argparse

_READING: dict[str, dict[str, Any]] = {
    "throughputs": {"metavar": "FILE", "help": "steps/s of the job types, csv or json"},
    "profiles": {
        "metavar": "DIR|CSV",
        "help": "elastic jobs: a folder of each, or steps/s by gpus",
    },
    "format": {"metavar": "NAME", "help": "of the trace (default: recognise it)"},
    "limit": {"type": whole(1), "metavar": "N", "help": "only the first N jobs"},
    "reference": {
        "metavar": "TYPE",
        "help": "on which durations were measured (default: v100)",
    },
    "missing": {
        "type": one_of("answer to jobs without throughputs", ("error", "drop")),
        "metavar": "error|drop",
        "help": "jobs without throughputs (default: error)",
    },
    "states": {
        "metavar": "A,B,...",
        "help": "only jobs that ended so: COMPLETED (default: all)",
    },
    "columns": {
        "metavar": "A=B,...",
        "help": "what yours mean: submit=arrival_s,n_gpus=scale_factor,... "
        "(units _s, _min, _h, _d, or dates)",
    },
}
"""How a trace is read."""

_FITTING: dict[str, dict[str, Any]] = {
    "too_large": {
        "type": one_of("answer to jobs that are too large", ("drop", "error")),
        "metavar": "drop|error",
        "help": "jobs too large for all types (drop for logs)",
    },
    "speed": {
        "type": by_accelerator,
        "metavar": "TYPE=X,...",
        "help": "times as fast as the best measured type, a100=2.3",
    },
    "types": {
        "type": one_of("answer to on which types jobs may run", ("any", "recorded")),
        "metavar": "any|recorded",
        "help": "recorded: on those that the log names only",
    },
    "measure": {
        "type": comma_separated(real()),
        "metavar": "A,B",
        "help": "figures of these jobs alone, e.g. 0.4,0.9",
    },
}
"""How jobs are made to fit an experiment: of drawn jobs as well."""

READING_OPTIONS, FITTING_OPTIONS = tuple(_READING), tuple(_FITTING)

STEADY = (0.4, 0.9)
"""Figures of the workload that is drawn where no option says how are of these of its jobs."""


def add_trace(
    parser: argparse.ArgumentParser, option: str | None = None, *, several: bool = False
) -> None:
    """Add how to read a trace.

    Parameters
    ----------
    parser
        Of the command.
    option
        Names the trace itself where it is not the argument.
    several
        Whether that may stand several times.
    """
    group = group_of(parser, "the workload")
    if option is not None:
        text = "a trace, or a csv of your own jobs; how it is read in brackets: 'jobs.csv(limit=9)'"
        text += "; several times" * several
        how: dict[str, Any] = {"action": "append" if several else "store", "help": text}
        add_setting(group, "workload", option, key="file", hidden=False, metavar="FILE", **how)

    for name, what in (_READING | _FITTING).items():
        flag = f"--{name.replace('_', '-')}"
        if name == "format":  # --format is of tables
            flag, what = "--trace-format", {**what, "dest": "format"}
        hidden = option is not None and name in _READING
        add_setting(group, "workload", flag, key=name, hidden=hidden, **what)
    if not several:  # what it was called before, where there is no format of tables
        add_alias(parser, "--format", "--trace-format")


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
        option = "trace-format" if name == "format" else name.replace("_", "-")
        raise InputError(f"--{option} is for a workload from a file; give --workload FILE.")
