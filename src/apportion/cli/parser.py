"""Commands and their options, read from words; imports nothing that is slow to load."""

from __future__ import annotations

import argparse
import shlex
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NoReturn

from apportion._version import __version__
from apportion.cli.answers.options import (
    add_accelerators,
    add_advise,
    add_doctor,
    add_forecast,
    add_policies,
    add_recommend,
    add_what_if,
)
from apportion.cli.commands import (
    Once,
    add_command,
    add_group,
    add_option,
    add_verbose,
    comma_separated,
    ending,
    finish,
    real,
    refuse_blank,
    whole,
)
from apportion.cli.options import (
    add_backend,
    add_cluster,
    add_file,
    add_seed,
    add_simulation,
    answer,
)
from apportion.cli.scheduler_options import add_decide, add_export
from apportion.cli.sections import add_setting, as_sections, defaults_of, setting_for
from apportion.cli.workload_options import (
    SETTINGS,
    add_describe,
    add_generate,
    add_generator,
    add_trace,
)
from apportion.errors import InputError, unknown_name
from apportion.text_files import read_text

if TYPE_CHECKING:
    from collections.abc import Sequence

DEFAULT_POLICIES = (
    *("max_min_fairness", "max_min_fairness_agnostic", "finish_time_fairness", "makespan"),
    *("shortest_job_first", "fifo", "fcfs", "easy", "minimum_completion_time"),
)

DEFAULT_ON_LOGS = (
    *("as_recorded", "slurm", "easy", "fcfs"),
    *("max_min_fairness", "finish_time_fairness", "shortest_job_first"),
)
"""Where the log says when jobs started: what its cluster did, queues that run there, policies."""

DEFAULT_ON_RACKS = ("dally", "dally_no_wait", "dally_fully_consolidated", "tiresias", "gandiva")

DEFAULT_ELASTIC = ("pollux", "sia", "deepboot", "optimus")

DEFAULTS = {
    "types of GPUs": DEFAULT_POLICIES,
    "a log with starts": DEFAULT_ON_LOGS,
    "racks": DEFAULT_ON_RACKS,
    "elastic jobs": DEFAULT_ELASTIC,
}
"""Who is compared where nobody is named, by what the workload is."""

_EXAMPLES = """\
examples:
  apportion compare
  apportion compare --workload log.csv --cluster v100=16 --policies fifo,fcfs
  apportion compare --racks 4 --policies dally,tiresias,gandiva
  apportion sweep --workload log.csv --loads 0.5,1 --seeds 0,1,2
  apportion what-if --workload log.csv --cluster v100=32 --add a100=8,16
  apportion advise log.csv --cluster v100=32
  apportion solve throughputs.csv --cluster v100=1,k80=1
"""


class _Parser(argparse.ArgumentParser):
    """A parser that raises instead of ending the program."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.register("action", None, Once)

    def error(self, message: str) -> NoReturn:
        message = message.replace(": expected one argument", " needs a value")
        if not message.startswith("argument -"):  # an option says itself what it is
            message = message[:1].upper() + message[1:]
        raise InputError(f"{message.removeprefix('argument ')}. See {self.prog} --help.")


def whole_parser() -> tuple[argparse.ArgumentParser, Any, dict[str, Any]]:
    """Return the parser of all commands, its commands, and the commands of those that have some."""
    parser = _Parser(
        prog="apportion",
        description="Decide how much accelerator time every deep-learning job gets, and simulate.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"apportion {__version__}")
    add_verbose(parser)
    parser.set_defaults(module=None, flags={}, sections={})
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    _add_compare(commands)
    _add_sweep(commands)
    for add in (
        *(add_what_if, add_recommend, add_forecast, add_advise, _add_solve),
        *(add_policies, add_accelerators, add_decide, add_export, add_doctor),
    ):
        add(commands)
    text = "describe a trace, or generate a workload"
    groups = {"workload": add_group(commands, "workload", text, (add_describe, add_generate))}
    return parser, commands, groups


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Turn words into options.

    Raises
    ------
    InputError
        For an unknown command or option, with the nearest one, and for unreadable values.
    """
    parser, commands, groups = whole_parser()
    _check_command("command", words[:1], commands.choices)
    for name in groups.keys() & set(words[:1]):
        _check_command(f"command of apportion {name}", words[1:2], groups[name].choices)
    command = commands.choices.get(words[0]) if words else None
    if words and words[0] in groups and len(words) > 1:
        command = groups[words[0]].choices.get(words[1])
    if command is not None and "config" in (command.get_default("flags") or ()):
        file = _config_of(words)
        if file:
            command.set_defaults(**defaults_of(file, _options_of(file), words, command))
    args, unknown = parser.parse_known_args(words)
    if (getattr(args, "config", None) or "").endswith(".toml"):
        args.config = None
    refuse_blank(args)
    if unknown:
        if not unknown[0].startswith("-"):
            raise InputError(f"Unexpected argument {unknown[0]!r}; options start with --.")
        inner = [] if command is None else words[: 1 + (words[0] in groups)]
        where = " ".join([parser.prog, *inner])
        option = unknown[0].partition("=")[0]
        value = unknown[0].partition("=")[2] or "".join(unknown[1:2])
        setting = setting_for(args, option, value)
        if setting is not None:
            raise InputError(f"Unknown option {option!r}. {setting}.")
        names = {flag.lstrip("-"): flag for flag in args.flags.values()}  # dashes are alike in all
        names = args.flags | names
        near = get_close_matches(option.lstrip("-"), names, 1, 0.5)
        valid = [names[each] for each in near]
        raise unknown_name("option", option, valid, shown=f"see {where} --help")
    if args.module is None:
        parser.print_help()
        parser.exit()
    return args


def _config_of(words: Sequence[str]) -> str:
    """Return the value of ``--config`` among words, nothing if there is none."""
    for word, following in zip(words, [*words[1:], ""], strict=False):
        flag, equals, value = word.partition("=")
        if flag == "--config":
            return value if equals else following
    return ""


def _options_of(file: str) -> dict[str, Any]:
    """Return options by section: those of a file, or of the command that a ``run.json`` holds."""
    if file.endswith(".toml"):
        return read_text(file, blank=True).toml()
    record = read_text(file).json()
    command = record.get("command") if isinstance(record, dict) else None
    try:
        words = shlex.split(command) if isinstance(command, str) else []
    except ValueError:  # quotes that do not end
        words = []
    if words[:2] != ["apportion", "compare"] or "--config" in words:
        raise InputError(
            f"{file!r} holds no command of a comparison: give a .toml file, or a run.json whose "
            f"policies, workload and settings were no objects of Python."
        )
    try:
        return as_sections(parse(words[1:]))
    except InputError as error:
        raise InputError(f"{file}, its command: {error}") from error


def _check_command(kind: str, words: Sequence[str], commands: Any) -> None:
    """Refuse a misspelt command with the nearest one; options are left to argparse."""
    if words and not words[0].startswith("-") and words[0] not in commands:
        raise unknown_name(kind, words[0], commands)


def _add_compare(commands: Any) -> None:
    parser = add_command(commands, "compare", "compare", "simulate several policies side by side")
    _add_config(parser, "a run.json to repeat, or a .toml file of options")
    _add_policies_option(parser)
    add_option(parser, "--out", "DIR", "", usual="out/compare")
    text = "also what the jobs of each user, entity, ... had"
    add_option(parser, "--by", "COLUMN", text)
    text = "also how much later jobs came than by a policy"
    add_option(parser, "--against", "NAME", text)
    text = "also starts at X times their cost (default: 0,5)"
    add_option(parser, "--start-costs", "X,Y", text, comma_separated(real()))
    add_backend(parser)
    add_trace(parser, "--workload")
    add_generator(parser)
    add_cluster(parser)
    add_simulation(parser)
    add_setting(parser, "mechanism", "record_prices", answer("record_prices"), "rounds")
    add_seed(parser, "of everything random (default: 0)")
    _finish(parser)


def _add_sweep(commands: Any) -> None:
    text = "simulate policies at several loads and with several seeds"
    parser = add_command(commands, "sweep", "sweep", text)
    _add_config(parser, "a .toml file of options")
    _add_policies_option(parser)
    text, loads = "factors of the arrival rate (default: 1)", comma_separated(real(strict=True))
    add_option(parser, "--loads", "X,Y,...", text, loads)
    text, seeds = "of everything random (default: 0)", comma_separated(whole(0))
    add_option(parser, "--seeds", "N,M,...", text, seeds)
    parser.set_defaults(loads=[1.0], seeds=[0])
    parser.add_argument("--resample", action="store_true", help="draw jobs anew for each seed")
    add_option(parser, "--by", "COLUMN", "and what jobs of each user, ... had")
    add_option(parser, "--out", "DIR", "", usual="out/sweep")
    parser.add_argument(
        "--format",
        dest="table_format",
        default="csv",
        metavar="csv|parquet",
        help="of the tables (default: %(default)s)",
    )
    parser.add_argument("--restart", action="store_true", help="forget the runs finished before")
    parser.add_argument("--dry-run", action="store_true", help="list the runs, and run none")
    add_backend(parser)
    add_trace(parser, "--workload", several=True)
    add_generator(parser)
    add_cluster(parser)
    add_simulation(parser)
    _finish(parser)


def _add_config(parser: argparse.ArgumentParser, text: str) -> None:
    add_option(parser, "--config", "FILE", text)


def _finish(parser: argparse.ArgumentParser) -> None:
    """End a command of simulations."""
    parser.epilog = SETTINGS
    finish(parser)


def _add_policies_option(parser: argparse.ArgumentParser) -> None:
    add_option(parser, "--policies", "A,B,...", "see `apportion policies`, which has the defaults")


def _add_solve(commands: Any) -> None:
    parser = add_command(commands, "solve", "solve", "solve one allocation problem")
    text = "csv: job id, then the steps/s of the job in one column per accelerator; empty cells are"
    add_file(parser, f"{text} estimated")
    parser.add_argument("--policy", default="max_min_fairness", metavar="NAME")
    parser.add_argument(
        "--cluster", dest="workers", required=True, metavar="v100=1,k80=1", help="GPUs by type"
    )
    add_option(parser, "--jobs-table", "FILE", "csv: job id, then columns of jobs")
    add_option(parser, "--out", "FILE", "write the result, .csv or .json", ending(".csv", ".json"))
    finish(parser)
