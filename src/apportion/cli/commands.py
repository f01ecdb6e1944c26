"""Commands among the words that are read, each carried out by a module of its own."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

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
    """Add one command that `module`.run carries out."""
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
    parser.set_defaults(flags=flags, valid=tuple(flags.values()))


def add_alias(parser: argparse.ArgumentParser, old: str, flag: str) -> None:
    """Let an option be called by what it once was called as well, which help does not show."""
    parser._option_string_actions[old] = parser._option_string_actions[flag]


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
