"""``apportion settings`` and ``completion``: lists that need no policy loaded."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING

from apportion.cli.output import print_table, say, width
from apportion.cli.parser import whole_parser
from apportion.errors import ApportionError, unknown_name

if TYPE_CHECKING:
    import argparse


def list_settings(args: argparse.Namespace) -> None:
    """List the settings of every option that has some, with what they are.

    Raises
    ------
    InputError
        For an option that has none.
    """
    sections = args.shown
    if args.section is not None:
        name = args.section.removeprefix("--").replace("-", "_")
        if name not in sections:
            raise unknown_name("option with settings", name, sections)
        sections = {name: sections[name]}
    if args.format == "json":
        print(
            json.dumps({n: {k: s._asdict() for k, s in s_.items()} for n, s_ in sections.items()})
        )
        return
    say(
        "In brackets: --mechanism 'leases(lease_seconds=1800)'. In a file for --config: a section "
        '[mechanism] with name = "leases" and lease_seconds = 1800.'
    )
    for name, settings in sections.items():
        print(f"\n[{name}]\n")
        longest = max(map(len, settings))
        room = max(width() - longest - 4, 30)
        rows = []
        for key, each in settings.items():
            first, *more = textwrap.wrap(f"{each.metavar}  {each.help}", room)
            rows += [[key, first], *(["", line] for line in more)]
        print_table(["setting", "what it is"], rows, left=(0, 1))


def completion(args: argparse.Namespace) -> None:
    """Print the completion script of a shell."""
    try:
        import shtab
    except ImportError as error:
        raise ApportionError("Completion needs shtab: pip install 'apportion[cli]'.") from error
    print(shtab.complete(whole_parser()[0], shell=args.shell))
