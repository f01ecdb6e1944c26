"""Options of the workload: how to read a trace, what to generate, and what they stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apportion.cli.commands import (
    add_alias,
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
from apportion.cli.sections import add_setting
from apportion.errors import InputError

if TYPE_CHECKING:
    import argparse

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

GENERATED_ELASTIC = {"generate_jobs": 40, "jobs_per_hour": 10.0}
"""The generated elastic workload where no option says otherwise."""

GENERATED_COMMUNICATING = {"generate_jobs": 60, "jobs_per_hour": 6.5}
"""The generated workload with communication profiles where no option says otherwise."""


_READING: dict[str, dict[str, Any]] = {
    "throughputs": {"metavar": "FILE", "help": "steps/s of the job types, csv or json"},
    "profiles": {
        "metavar": "DIR|CSV",
        "help": "elastic jobs: a folder of each, or steps/s by gpus",
    },
    "format": {"metavar": "NAME", "help": "of the trace (default: recognise it)"},
    "limit": {"type": whole(1), "metavar": "N", "help": "only the first N jobs"},
    "reference": {"metavar": "TYPE", "help": "on which durations were measured (default: v100)"},
    "missing": {
        "type": one_of("answer to jobs without throughputs", ("error", "drop")),
        "metavar": "error|drop",
        "help": "jobs without throughputs (default: error)",
    },
    "states": {"metavar": "A,B,...", "help": "only jobs that ended so: COMPLETED (default: all)"},
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


def add_generator(parser: argparse.ArgumentParser, *, hidden: bool = False) -> None:
    """Add how to draw a workload; `hidden` where ``--generate`` stands for all of it."""
    group = group_of(parser, "the workload")
    if hidden:
        add_option(
            group,
            "--generate",
            "jobs=N,...",
            "(default: jobs=600,jobs_per_hour=2.2; arrivals=batch for racks)",
        )
    for flag, how in _generator_options().items():
        key = "jobs" if flag == "--generate-jobs" else None
        add_setting(group, "generate", flag, key=key, hidden=hidden, **how)


def _generator_options() -> dict[str, dict[str, Any]]:
    """Return what argparse must know of the options of a generated workload."""
    arrivals = ("poisson", "batch", "diurnal")
    options: dict[str, dict[str, Any]] = {
        "--generate-jobs": {"type": whole(1), "metavar": "N", "help": _default("generate_jobs")},
        "--arrivals": {
            "type": one_of("arrivals", arrivals),
            "metavar": "|".join(arrivals),
            "help": "at a steady rate, all at once, or more by day than by night and on weekdays "
            "than on weekends (default: poisson; batch for racks, which have no diurnal)",
        },
        "--jobs-per-hour": {
            "type": real(),
            "metavar": "X",
            "help": "(default: 2.2, for racks as published)",
        },
        "--days": {
            "type": real(strict=True),
            "metavar": "X",
            "help": "of diurnal arrivals, in place of their rate",
        },
    }
    for name, choices in (
        ("scale_factors", ("single", "gavel", "philly")),
        ("durations", ("gavel", "philly")),
    ):
        kind = one_of(name.replace("_", " "), choices)
        how = {"type": kind, "metavar": "|".join(choices), "help": _default(name)}
        options[f"--{name.replace('_', '-')}"] = how
    return options


def add_kind(parser: argparse.ArgumentParser) -> None:
    """Add what the generated jobs are for."""
    kinds = ("types", "racks", "contended", "communicating", "elastic")
    add_option(
        parser,
        "--kind",
        "|".join(kinds),
        "for several types of accelerators, for racks of one, as in the paper on contention, "
        "with communication profiles, or elastic",
        one_of("kind of workload", kinds),
        "types",
    )
    add_option(
        parser,
        "--models",
        "NAME,...",
        "of --kind communicating (default: all with communication profiles)",
    )
    add_option(
        parser,
        "--gang-gpus",
        "N",
        "of each job of --kind communicating (default: 2 to 6)",
        whole(2),
    )


def _default(name: str) -> str:
    return f"(default: {GENERATED[name]})"


def add_describe(commands: Any) -> None:
    """Add ``apportion workload describe``."""
    parser = add_command(
        commands, "describe", "workloads:describe_workload", "describe a trace in numbers"
    )
    add_file(parser, "the trace")
    add_trace(parser)
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
    add_generator(parser)
    add_seed(parser, "same seed, same workload (default: 0)")
    finish(parser)
