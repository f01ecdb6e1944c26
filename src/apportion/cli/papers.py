"""``apportion papers``: claims of the papers, and verdicts."""

from __future__ import annotations

import json
import textwrap
from dataclasses import asdict
from typing import TYPE_CHECKING

from apportion.cli.output import width
from apportion.errors import unknown_name
from apportion.papers import Claim, claims_of, systems
from apportion.papers.shown import as_rows, in_full, in_one_line

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
            print(_wrapped(line, "    "))
    elif system:
        _list(system, claims[system])
    else:
        for each, told in claims.items():
            print(in_one_line(each, told))
        print("`apportion papers gavel` lists the claims of one, `... gavel.NAME` says all of one.")


def _list(system: str, claims: Sequence[Claim]) -> None:
    print(f"{_wrapped(systems()[system], '')}\n{in_one_line(system, claims)}\n")
    for claim, row in zip(claims, as_rows(claims), strict=True):
        print(_wrapped(f"{claim.verdict:<15}{claim.name}: {claim.says}", " " * 15))
        told = f"{row[3]}: {row[4]}" if claim.figures else claim.open or claim.out_of_scope
        print(_wrapped(" " * 15 + told, " " * 15))
    if any(claim.later for claim in claims):
        print("\n(later): a criterion that was written when the figure was known")


def _wrapped(text: str, indent: str) -> str:
    return textwrap.fill(text, width(), subsequent_indent=indent, break_on_hyphens=False)
