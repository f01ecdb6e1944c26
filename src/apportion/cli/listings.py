"""``apportion settings``, ``papers`` and ``completion``: lists that need no policy loaded."""

from __future__ import annotations

import json
import textwrap
from dataclasses import asdict
from typing import TYPE_CHECKING

from apportion.cli.output import print_table, say, width
from apportion.cli.parser import whole_parser
from apportion.errors import ApportionError, unknown_name
from apportion.papers import Claim, claims_of, systems
from apportion.papers.claims import as_rows, in_full, in_one_line

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence


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


def list_papers(args: argparse.Namespace) -> None:
    """Print a line for each system, the claims of one, or all of one claim.

    Raises
    ------
    InputError
        For a system or a claim that is not there.
    """
    system, _, name = (args.about or "").partition(".")
    claims = {each: claims_of(each) for each in ([system] if system else systems())}
    if name:
        by_name = {each.name: each for each in claims[system]}
        if name not in by_name:
            raise unknown_name(f"claim of {system}", name, by_name)
        claims = {system: (by_name[name],)}
    if args.format == "json":
        whole = [claim for each in claims.values() for claim in each]
        print(json.dumps([asdict(claim) | {"verdict": claim.verdict} for claim in whole]))
    elif name:
        for line in in_full(claims[system][0]).splitlines():
            say(line, "    ")
    elif system:
        _list(system, claims[system])
    else:
        for each, told in claims.items():
            print(in_one_line(each, told))
        say("`apportion papers gavel` lists the claims of one, `... gavel.NAME` says all of one.")


def _list(system: str, claims: Sequence[Claim]) -> None:
    say(systems()[system])
    print(f"{in_one_line(system, claims)}\n")
    for claim, row in zip(claims, as_rows(claims), strict=True):
        say(f"{claim.verdict:<15}{claim.name}: {claim.says}", " " * 15)
        told = f"{row[3]}: {row[4]}" if claim.figures else claim.open or claim.out_of_scope
        say(" " * 15 + told, " " * 15)
    if any(claim.later for claim in claims):
        print("\n(later): a criterion that was written when the figure was known")


def completion(args: argparse.Namespace) -> None:
    """Print the completion script of a shell."""
    try:
        import shtab
    except ImportError as error:
        raise ApportionError("Completion needs shtab: pip install 'apportion[cli]'.") from error
    print(shtab.complete(whole_parser()[0], shell=args.shell))
