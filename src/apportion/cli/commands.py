"""Commands among the words that are read, each carried out by a module of its own."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["add_command", "add_group", "add_verbose", "finish"]


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
        name, help=text, description=f"{text[:1].upper()}{text[1:]}.", allow_abbrev=False
    )
    add_verbose(parser)
    parser.set_defaults(module=module)
    return parser


def finish(parser: argparse.ArgumentParser) -> None:
    """Remember the options of a command, by what they are called among those that are read."""
    flags = {each.dest: each.option_strings[-1] for each in parser._actions if each.option_strings}
    parser.set_defaults(flags=flags, valid=tuple(flags.values()))


def add_verbose(parser: argparse.ArgumentParser) -> None:
    """Add how much is said."""
    parser.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        default=argparse.SUPPRESS,
        help="say what happens, and show tracebacks",
    )
