"""Options of the commands that list what there is, and say whether it works."""

from __future__ import annotations

import argparse
from typing import Any

from apportion.cli.commands import add_command, finish, one_of


def _add_format(parser: argparse.ArgumentParser) -> None:
    """Add how a list is written."""
    parser.add_argument(
        "--format",
        type=one_of("format", ("text", "json")),
        default="text",
        metavar="text|json",
        help="(default: %(default)s)",
    )
    text = argparse.SUPPRESS  # what it was called before
    parser.add_argument("--json", dest="format", action="store_const", const="json", help=text)


def add_policies(commands: Any) -> None:
    """Add the list of policies and schedulers."""
    parser = add_command(
        commands, "policies", "installed:list_known", "list the policies and schedulers"
    )
    parser.set_defaults(listed="policies")
    _add_format(parser)
    finish(parser)


def add_accelerators(commands: Any) -> None:
    """Add the list of types of GPUs."""
    text = "list the types of GPUs that are known by name"
    parser = add_command(commands, "accelerators", "installed:list_known", text)
    parser.set_defaults(listed="accelerators")
    _add_format(parser)
    finish(parser)


def add_settings(commands: Any) -> None:
    """Add the list of settings; the commands that have some are there."""
    text = "list what options take in brackets, and files of settings"
    parser = add_command(commands, "settings", "listings:list_settings", text)
    parser.add_argument("section", nargs="?", metavar="OPTION", help="of one alone: mechanism")
    _add_format(parser)
    parser.set_defaults(shown=commands.choices["compare"].get_default("sections"))
    finish(parser)


def add_papers(commands: Any) -> None:
    """Add what the papers claim."""
    text = "what the papers claim, and what of it holds here"
    parser = add_command(commands, "papers", "listings:list_papers", text)
    text = "the claims of one: gavel; all of one claim: gavel.load"
    parser.add_argument("about", nargs="?", metavar="SYSTEM", help=text)
    _add_format(parser)
    finish(parser)


def add_doctor(commands: Any) -> None:
    """Add what says whether the installation works."""
    text = "say what is installed, and whether it works"
    finish(add_command(commands, "doctor", "installed:doctor", text))


def add_completion(commands: Any) -> None:
    """Add what makes a shell complete commands."""
    text = "print what makes a shell complete commands"
    parser = add_command(commands, "completion", "listings:completion", text)
    shells = ("bash", "zsh")
    parser.add_argument("shell", type=one_of("shell", shells), metavar="|".join(shells))
    parser.epilog = (
        "For bash: apportion completion bash > ~/.local/share/bash-completion/completions/apportion"
    )
    finish(parser)
