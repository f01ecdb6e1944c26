"""Commands and their options among words, read by the checks that Python callers pass too."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from apportion.checks import choice, number, read_number, read_whole
from apportion.errors import InputError
from apportion.mechanisms.start_costs import MEASURED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def add_group(commands: Any, name: str, text: str, members: Sequence[Callable[[Any], None]]) -> Any:
    """Add a command that has commands of its own."""
    group = commands.add_parser(name, help=text)
    actions = group.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for add in members:
        add(actions)
    return actions


def add_command(commands: Any, name: str, module: str, text: str) -> argparse.ArgumentParser:
    """Add one command that `module` carries out by its ``run``; or `module:function` does."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=text,
        description=f"{text[:1].upper()}{text[1:]}.",
        formatter_class=_Wide,
        allow_abbrev=False,
    )
    add_verbose(parser)
    parser.set_defaults(module=module)
    return parser


class Once(argparse.Action):
    """Keep the value of an option, which is refused where it stands twice."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Keep what was given."""
        self.keep(parser, namespace, self.dest, values)

    def keep(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, name: str, value: Any
    ) -> None:
        """Keep a value by its name, of which only one is taken."""
        asked = parser.__dict__.setdefault("asked", set())
        if self.option_strings and name in asked:
            what = "" if name == self.dest else f"{name} "
            raise argparse.ArgumentError(self, f"{what}is given twice; it takes one value")
        asked.add(name)
        setattr(namespace, name, value)


class _Wide(argparse.HelpFormatter):
    """Help that stands beside all options but the longest."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=29)


def add_option(
    group: argparse.ArgumentParser | argparse._ArgumentGroup,
    flag: str,
    metavar: str,
    text: str,
    read: Callable[[str], Any] = str,
    usual: Any = None,
) -> None:
    """Add an option with a value; help says what it usually is.

    Parameters
    ----------
    group
        Of which command, or of which of its groups.
    flag, metavar, text
        As help shows them.
    read
        Reads the value from a word.
    usual
        The value where none is given.
    """
    told = text if usual is None else f"{text} (default: %(default)s)".strip()
    group.add_argument(flag, type=read, default=usual, metavar=metavar, help=told)


def finish(parser: argparse.ArgumentParser) -> None:
    """Remember the options of a command, by what they are called among those that are read.

    Its usage names what is no option; the options stand below it anyway.
    """
    others = [each for each in parser._actions if not each.option_strings]
    words = [f"{each.metavar or each.dest}" for each in others]
    words = [f"[{w}]" if a.nargs == "?" else w for w, a in zip(words, others, strict=True)]
    parser.usage = " ".join(["%(prog)s", *words, "[OPTIONS]"])
    flags = {each.dest: each.option_strings[-1] for each in parser._actions if each.option_strings}
    parser.set_defaults(flags=flags)


def group_of(parser: argparse.ArgumentParser, title: str) -> Any:
    """Return the group of options of a title, a new one where there is none yet."""
    known = {each.title: each for each in parser._action_groups}
    return known.get(title) or parser.add_argument_group(title)


def add_verbose(parser: argparse.ArgumentParser) -> None:
    """Add how much is said."""
    parser.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        default=argparse.SUPPRESS,
        help="say what happens, and show tracebacks",
    )


def comma_separated(kind: Callable[[str], float]) -> Callable[[str], list[float]]:
    """Return a reader of numbers with commas between them."""

    def read(words: str) -> list[float]:
        try:
            return [kind(word) for word in words.split(",") if word.strip()]
        except (ValueError, argparse.ArgumentTypeError) as error:
            raise argparse.ArgumentTypeError(
                f"{error}, with commas between several, e.g. 1,2,4"
            ) from error

    return read


def ending(*valid: str) -> Callable[[str], str]:
    """Return a check that a file name ends in one of the given endings."""

    def check(name: str) -> str:
        if not name.endswith(valid):
            raise argparse.ArgumentTypeError(f"{name!r} must end in {' or '.join(valid)}")
        return name

    return check


def whole(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return a check that a word is a whole number, not below the least or above the most."""

    def check(word: str) -> int:
        try:
            value = read_whole(word, least)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error
        if most is not None and value > most:
            raise argparse.ArgumentTypeError(f"must be at most {most}, not {value}")
        return value

    return check


def number_or_by_type(word: str) -> int | str:
    """Return a whole number, or ``TYPE=N,...`` as it stands."""
    return word if "=" in word else whole(1)(word)


def real(*, strict: bool = False) -> Callable[[str], float]:
    """Return a check that a word is a finite number >= 0, or > 0 if `strict`."""

    def check(word: str) -> float:
        try:
            return number(repr(word), read_number(word), strict=strict)
        except InputError as error:
            words = f"{word!r} must be a finite number {'>' if strict else '>='} 0"
            raise argparse.ArgumentTypeError(words) from error

    return check


def by_accelerator(word: str) -> dict[str, float]:
    """Read a number > 0 for each accelerator: ``a100=2.3,h100=4.1``."""
    found: dict[str, float] = {}
    for name, value in by_name(word, "TYPE=X, such as a100=2.3").items():
        try:
            found[name] = real(strict=True)(value)
        except argparse.ArgumentTypeError as error:
            raise argparse.ArgumentTypeError(f"of {name!r}, {error}") from error
    return found


def by_name(word: str, valid: str = "NAME=VALUE") -> dict[str, str]:
    """Read texts by name: ``arrival_s=TIMESTAMP,context_tokens=ContextTokens``."""
    found: dict[str, str] = {}
    for part in word.split(","):
        name, equals, value = (each.strip() for each in part.partition("="))
        if not (name and equals and value):
            raise argparse.ArgumentTypeError(f"{part!r} is no {valid}")
        if name in found:
            raise argparse.ArgumentTypeError(f"{name!r} is given twice")
        found[name] = value
    return found


def by_job_type(word: str) -> float | str | dict[str, float]:
    """Read a number, or one for each job type: ``bert=60,others=20``, or a csv file of them."""
    if word == MEASURED:
        return word
    if word.endswith(".csv"):
        return _table_of_types(word)
    if "=" not in word:
        return real()(word)
    each = (part.rpartition("=") for part in word.split(","))
    return {job_type.strip(): real()(value) for job_type, _, value in each}


def _table_of_types(path: str) -> dict[str, float]:
    """Read a csv file with the columns ``job_type`` and ``seconds``."""
    from apportion.sim.traces.table import users_table  # not waited for by other commands

    try:
        table = users_table(path)
        types, seconds_of = table.texts("job_type"), table.numbers("seconds")
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error).rstrip(".")) from error
    found: dict[str, float] = {}
    for line, job_type, seconds in zip(types.index, types, seconds_of, strict=True):
        if found.setdefault(job_type, seconds) != seconds:
            words = f"{path!r}, line {line}: {job_type!r} has {found[job_type]:g} before"
            raise argparse.ArgumentTypeError(words)
    return found


def one_of(kind: str, valid: tuple[str, ...]) -> Callable[[str], str]:
    """Return a check that a word is one of the valid ones; argparse knows no nearest name."""
    return read_by(lambda word: choice(kind, word, valid))


def read_by(check: Callable[[str], str]) -> Callable[[str], str]:
    """Return a reader of words by a check that Python callers pass too."""

    def read(word: str) -> str:
        try:
            return check(word)
        except InputError as error:
            raise argparse.ArgumentTypeError(str(error).rstrip(".")) from error

    return read


def refuse_blank(args: argparse.Namespace) -> None:
    """Refuse options whose value is blank: it would be taken for one left out, or for a folder.

    Raises
    ------
    InputError
        Naming the option.
    """
    for name, value in vars(args).items():
        for word in value if isinstance(value, list) else [value]:
            if isinstance(word, str) and (not word.strip() or "\0" in word):
                option = args.flags.get(name, name)
                raise InputError(f"{option} is {word!r}; give a value, or leave the option out.")
