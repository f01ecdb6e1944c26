"""Claims of the papers, read from ``claims.toml``, the one function that judges them, their text.

Nothing in the file says whether a claim holds: that follows from its figures and its criterion.
"""

from __future__ import annotations

import tomllib
from dataclasses import MISSING, dataclass, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from apportion.errors import InputError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


VERDICTS = ("reproduced", "not reproduced", "open", "out of scope")

SIDES: Mapping[str, Callable[[float, float], bool]] = {
    "at least": lambda figure, bound: figure >= bound,
    "at most": lambda figure, bound: figure <= bound,
    "above": lambda figure, bound: figure > bound,
    "below": lambda figure, bound: figure < bound,
}
"""Directions that ask for one side of one bound."""

DIRECTIONS = (*SIDES, "between", "holds")
"""``between`` two bounds; an interval that ``holds`` the bound."""


class Figure(NamedTuple):
    """What was measured in one case, with its 95 % interval where there is one."""

    case: str
    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Claim:
    """One sentence of a paper, what decides it, and what was measured.

    Attributes
    ----------
    system, name
        Together they name the claim: ``gavel.load``.
    place
        Figure, table or section of the paper.
    says
        The claim, in our words.
    setting
        Cluster, load, trace, hosts of what is measured here.
    statistic
        What the figures are, with their unit.
    direction, bound
        The criterion, which every figure must meet: one of ``DIRECTIONS``, and one number, or two.
    command
        What prints the figures, from the top of a checkout.
    figures
        One for each case; none if nothing was measured.
    commit
        The one whose code gave the figures, or that recorded them.
    seeds
        Over how many draws; 0 where nothing is drawn.
    by_interval
        The whole interval must meet the criterion, and not the figure alone.
    later
        The criterion was written after the figure was known.
    published
        The paper's own figures, where they can be read.
    rests_on
        Baseline, topology, load or whatever else the verdict hangs on.
    nearest
        Of a claim that does not hold: the nearest setting in which it would, or why there is none.
    open, out_of_scope
        Why there is no figure.

    Raises
    ------
    InputError
        If parts are missing, or contradict each other.
    """

    system: str
    name: str
    place: str
    says: str
    statistic: str
    direction: str = ""
    bound: float | tuple[float, float] = 0.0
    setting: str = ""
    command: str = ""
    figures: tuple[Figure, ...] = ()
    commit: str = ""
    seeds: int = 0
    by_interval: bool = False
    later: bool = False
    published: str = ""
    rests_on: str = ""
    nearest: str = ""
    open: str = ""
    out_of_scope: str = ""

    def __post_init__(self) -> None:
        about = f"Claim {self.system}.{self.name}"
        reasons = [word for word in (self.open, self.out_of_scope) if word]
        if len(reasons) + bool(self.figures) != 1:
            raise InputError(f"{about} needs one of: figures, open=, out_of_scope=.")
        if self.direction not in (*DIRECTIONS, *("" for _ in reasons)):
            raise unknown_name(f"direction ({about})", self.direction, DIRECTIONS)
        if isinstance(self.bound, tuple) != (self.direction == "between"):
            raise InputError(f"{about}: 'between' has two bounds, every other direction one.")
        if not self.figures:
            return
        if not self.command or not self.commit:
            raise InputError(f"{about} has figures, so it needs command= and commit=.")
        for figure in self.figures:
            known = figure.low is not None and figure.high is not None
            if known and not _ordered(figure):
                raise InputError(f"{about}: the interval of {figure.case!r} lacks its figure.")
            if not known and (self.by_interval or self.direction == "holds"):
                raise InputError(f"{about} is decided by intervals; {figure.case!r} has none.")

    @property
    def verdict(self) -> str:
        """One of `VERDICTS`, from figures and criterion alone."""
        if not self.figures:
            return "open" if self.open else "out of scope"
        return VERDICTS[0] if all(map(self.holds, self.figures)) else VERDICTS[1]

    def holds(self, figure: Figure) -> bool:
        """Whether one figure meets the criterion."""
        low, high = figure.low, figure.high
        if isinstance(self.bound, tuple):
            told = (low, high) if self.by_interval else (figure.value,)
            return all(each is not None and _within(each, self.bound) for each in told)
        if self.direction == "holds":
            return low is not None and high is not None and low <= self.bound <= high
        if self.by_interval:
            nearer = low if self.direction in ("at least", "above") else high
            return nearer is not None and SIDES[self.direction](nearer, self.bound)
        return SIDES[self.direction](figure.value, self.bound)


def _within(value: float, bounds: tuple[float, float]) -> bool:
    return bounds[0] <= value <= bounds[1]


def _ordered(figure: Figure) -> bool:
    low, high = figure.low, figure.high
    return low is not None and high is not None and _within(figure.value, (low, high))


def systems() -> dict[str, str]:
    """Name the systems, each with its papers."""
    return {system: about["papers"] for system, about in _file().items()}


def claims_of(system: str) -> tuple[Claim, ...]:
    """Return what the papers of a system claim, in the order of the file.

    Raises
    ------
    InputError
        If there is no such system, with the nearest one.
    """
    if system not in _file():
        raise unknown_name("system", system, _file())
    return claims_from(system, _file()[system]["claim"])


def counts(claims: Sequence[Claim]) -> dict[str, int]:
    """Count the claims by verdict; every verdict is there."""
    told = [claim.verdict for claim in claims]
    return {verdict: told.count(verdict) for verdict in VERDICTS}


def claims_from(system: str, rows: Sequence[Mapping[str, Any]]) -> tuple[Claim, ...]:
    """Make claims of the tables of a file, and refuse what no claim has.

    Raises
    ------
    InputError
        For unknown and missing keys, and for a name that is there twice.
    """
    known = {each.name: each.default is MISSING for each in fields(Claim) if each.name != "system"}
    claims: dict[str, Claim] = {}
    for row in rows:
        about = f"Claim {system}.{row.get('name', '?')}"
        for key in row.keys() - known.keys():
            raise unknown_name(f"key of a claim ({about})", key, known)
        missing = [key for key, needed in known.items() if needed and key not in row]
        if missing:
            raise InputError(f"{about} lacks {', '.join(missing)}.")
        if row["name"] in claims:
            raise InputError(f"{about} is there twice.")
        bound = row.get("bound", 0.0)
        told = {
            "bound": tuple(bound) if isinstance(bound, list) else bound,
            "figures": tuple(Figure(*each) for each in row.get("figures", ())),
        }
        claims[row["name"]] = Claim(system=system, **{**row, **told})
    return tuple(claims.values())


@cache
def _file() -> Mapping[str, Any]:
    text = Path(__file__).with_name("claims.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


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
            _measured(claim),
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


def _measured(claim: Claim) -> str:
    """Write the figures, and over how many draws: a single one says little."""
    text = "; ".join(_figure(each) for each in claim.figures) or "-"
    if not claim.figures or not claim.seeds:
        return text
    return f"{text} ({claim.seeds} draw{'s' if claim.seeds > 1 else ''})"


def _figure(figure: Figure) -> str:
    text = f"{figure.value:.3g}"
    if figure.low is not None and figure.high is not None:
        text += f" [{figure.low:.3g}, {figure.high:.3g}]"
    return f"{figure.case}: {text}" if figure.case else text


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
