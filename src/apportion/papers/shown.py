"""Claims as text: a line for a system, a row for a claim, everything of one claim."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from apportion.papers.claims import Claim, counts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.papers.claims import Figure

HEADS = ("claim", "place", "published", "criterion", "here", "verdict")


def in_one_line(system: str, claims: Sequence[Claim]) -> str:
    """Write how many claims of a system hold: ``gavel: 4 claims, 3 reproduced, 1 not``."""
    found = counts(claims)
    words = {"reproduced": "reproduced", "not reproduced": "not"}
    told = [f"{count} {words.get(name, name)}" for name, count in found.items() if count]
    return f"{system}: {', '.join([f'{len(claims)} claims', *told])}"


def as_rows(claims: Sequence[Claim], *, markdown: bool = False) -> list[list[str]]:
    """Make a row of `HEADS` for each claim."""
    return [
        [
            claim.says if markdown else claim.name,
            claim.place,
            claim.published or "-",
            criterion(claim),
            "; ".join(_figure(each) for each in claim.figures) or "-",
            claim.verdict,
        ]
        for claim in claims
    ]


def as_markdown(claims: Sequence[Claim]) -> str:
    """Write a table of the claims; below it, why those that do not hold do not."""
    rows = [list(HEADS), ["---"] * len(HEADS), *as_rows(claims, markdown=True)]
    return "\n".join(f"| {' | '.join(_cell(each) for each in row)} |" for row in rows)


def criterion(claim: Claim) -> str:
    """Write the criterion of a claim: ``at least 1.4, the whole interval``."""
    if not claim.direction:
        return "-"
    if isinstance(claim.bound, tuple):
        text = f"between {claim.bound[0]:g} and {claim.bound[1]:g}"
    elif claim.direction == "holds":
        text = f"the interval holds {claim.bound:g}"
    else:
        text = f"{claim.direction} {claim.bound:g}"
    text += ", the whole interval" if claim.by_interval else ""
    return f"{text} (later)" if claim.later else text


def in_full(claim: Claim) -> str:
    """Write all that the file says of one claim, and the verdict."""
    told = [f"{claim.system}.{claim.name}: {claim.verdict}"]
    for each in fields(Claim):
        value = getattr(claim, each.name)
        if each.name in ("system", "name", "direction", "by_interval", "later") or not value:
            continue
        if each.name == "bound":
            told.append(f"  criterion: {criterion(claim)}")
        elif each.name == "figures":
            told.append(f"  figures: {'; '.join(_figure(figure) for figure in value)}")
        else:
            told.append(f"  {each.name.replace('_', ' ')}: {value}")
    return "\n".join(told)


def _figure(figure: Figure) -> str:
    text = f"{figure.value:.3g}"
    if figure.low is not None and figure.high is not None:
        text += f" [{figure.low:.3g}, {figure.high:.3g}]"
    return f"{figure.case}: {text}" if figure.case else text


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
