"""``apportion papers``: claims of the papers, and verdicts."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from apportion.cli.output import say
from apportion.errors import unknown_name
from apportion.papers import Claim, claims_of, systems
from apportion.papers.claims import as_rows, in_full, in_one_line

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence


def run(args: argparse.Namespace) -> None:
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
