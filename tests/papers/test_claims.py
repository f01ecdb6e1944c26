from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.in_process import run_benchmark

from apportion.errors import InputError
from benchmarks.papers import __main__ as papers
from benchmarks.papers.claims import (
    Claim,
    Figure,
    claims_from,
    claims_of,
    counts,
    in_one_line,
    systems,
)

ROOT = Path(__file__).parents[2]
ALL = [claim for system in systems() for claim in claims_of(system)]
COMMANDS = sorted({claim.command for claim in ALL if claim.command})
ONE = Claim(
    *("x", "one", "Table 1", "It is so", "hours", "at least", 2.0),
    figures=(Figure("", 3.0, 1.0, 4.0),),
    command="python -m benchmarks.papers",
    commit="0123456",
)


@pytest.mark.parametrize(
    ("direction", "bound", "by_interval", "holds"),
    [
        ("at least", 2.0, False, True),
        ("at least", 3.0, False, True),
        ("above", 3.0, False, False),
        ("at least", 2.0, True, False),  # the interval begins at 1
        ("at least", 1.0, True, True),
        ("above", 1.0, True, False),
        ("at most", 3.0, False, True),
        ("below", 3.0, False, False),
        ("at most", 3.5, True, False),  # it ends at 4
        ("at most", 4.0, True, True),
        ("below", 4.0, True, False),
        ("between", (2.9, 3.1), False, True),
        ("between", (2.9, 3.1), True, False),
        ("between", (1.0, 4.0), True, True),
        ("holds", 1.0, False, True),
        ("holds", 4.5, False, False),
    ],
)
def test_verdicts_by_hand(
    direction: str, bound: float | tuple[float, float], by_interval: bool, holds: bool
) -> None:
    claim = replace(ONE, direction=direction, bound=bound, by_interval=by_interval)
    assert claim.verdict == ("reproduced" if holds else "not reproduced")


def test_every_case_must_hold_and_a_claim_without_figures_is_open() -> None:
    two = replace(ONE, figures=(*ONE.figures, Figure("other", 1.9)))
    assert two.verdict == "not reproduced"
    assert replace(ONE, figures=(), open="not run").verdict == "open"
    assert replace(ONE, figures=(), out_of_scope="GPUs").verdict == "out of scope"
    counted = counts([ONE, two, replace(ONE, figures=(), open="not run")])
    assert counted == {"reproduced": 1, "not reproduced": 1, "open": 1, "out of scope": 0}
    assert in_one_line("x", [ONE, two, two]) == "x: 3 claims, 1 reproduced, 2 not"


def test_verdicts_turn_with_the_sign_of_everything() -> None:
    """At least is at most of what is negated; a criterion by interval is never the weaker one."""
    rng = np.random.default_rng(0)
    mirrored = {"at least": "at most", "above": "below", "at most": "at least", "below": "above"}
    for _ in range(200):
        # Of a few whole numbers, so that figures and bounds meet.
        low, value, high = sorted(rng.integers(-3, 4, 3).tolist())
        bound, direction = float(rng.integers(-3, 4)), str(rng.choice(list(mirrored)))
        claim = replace(
            ONE, direction=direction, bound=bound, figures=(Figure("", value, low, high),)
        )
        turned = replace(
            claim,
            direction=mirrored[direction],
            bound=-bound,
            figures=(Figure("", -value, -high, -low),),
        )
        by_interval = replace(claim, by_interval=True)
        assert claim.verdict == turned.verdict
        assert by_interval.verdict == replace(turned, by_interval=True).verdict
        if by_interval.verdict == "reproduced":
            assert claim.verdict == "reproduced"
            assert all(
                replace(by_interval, figures=(Figure("", end, end, end),)).verdict == "reproduced"
                for end in (low, value, high)
            )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"figures": ()}, "needs one of: figures"),
        ({"open": "later"}, "needs one of: figures"),
        ({"direction": "atleast"}, "Did you mean 'at least'?"),
        ({"direction": "between"}, "two bounds"),
        ({"bound": (1.0, 2.0)}, "two bounds"),
        ({"command": ""}, "needs command= and commit="),
        ({"figures": (Figure("a", 5.0, 1.0, 4.0),)}, "the interval of 'a' lacks its figure"),
        ({"figures": (Figure("a", 5.0),), "by_interval": True}, "'a' has none"),
    ],
)
def test_what_contradicts_itself_is_refused(changes: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        replace(ONE, **changes)  # type: ignore[arg-type]


def test_files_are_refused_by_the_name_of_the_claim() -> None:
    row = {"name": "a", "place": "p", "says": "s", "statistic": "t", "open": "not run"}
    assert claims_from("x", [row])[0].verdict == "open"
    for rows, said in (
        (
            [row | {"verdict": "reproduced"}],
            "Unknown key of a claim (x a)".replace("x a", "Claim x.a"),
        ),
        ([{"name": "a", "open": "not run"}], "Claim x.a lacks place, says, statistic."),
        ([row, row], "Claim x.a is there twice."),
    ):
        with pytest.raises(InputError, match=re.escape(said)):
            claims_from("x", rows)


@pytest.mark.parametrize("claim", ALL, ids=lambda claim: f"{claim.system}.{claim.name}")
def test_a_claim_says_all_that_a_reader_asks(claim: Claim) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", claim.name)
    for text in (claim.says, claim.place, claim.statistic):
        assert text == text.strip() != ""
        assert not text.endswith(".")
    if claim.figures:
        assert re.fullmatch(r"[0-9a-f]{7,40}", claim.commit)
        assert claim.setting
    if claim.verdict == "not reproduced":
        assert claim.rests_on, "what the verdict hangs on"
        assert claim.nearest, "where it would hold, or that nothing was found"
        for text in (claim.rests_on, claim.nearest):
            assert not re.fullmatch(r"as [a-z0-9-]+", text), "a reason of its own"
            assert not re.search(r"\b(presumably|probably|perhaps)\b", text), "measured"
    for other in (claim.setting, claim.rests_on):
        if (found := re.match(r"as ([a-z0-9-]+)", other)) and "-" in found[1]:
            assert found[1] in {each.name for each in claims_of(claim.system)}


def test_every_system_has_claims_of_each_kind() -> None:
    assert set(systems()) == {"gavel", "dally", "cassini", "deepboot", "ada_srsf"}
    for system in systems():
        found = counts(claims_of(system))
        assert found["reproduced"] > 0
        assert found["not reproduced"] > 0  # a file in which all hold would be a strange one


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_are_there(command: str) -> None:
    python, module, name, *_ = shlex.split(command)
    assert (python, module) == ("python", "-m")
    file = ROOT / Path(*name.split("."))
    assert file.with_suffix(".py").is_file()


@pytest.mark.thorough
@pytest.mark.parametrize("name", sorted({shlex.split(command)[2] for command in COMMANDS}))
def test_commands_know_their_options_and_have_a_quick_form(name: str) -> None:
    within = name.removeprefix("benchmarks.")
    module = (
        within
        if (ROOT / "benchmarks" / Path(*within.split("."))).with_suffix(".py").is_file()
        else f"{within}.__main__"
    )
    helped = run_benchmark(module, "--help", folder=ROOT).out
    words = [
        word for command in COMMANDS for word in shlex.split(command)[3:] if name in command.split()
    ]
    for option in {"--quick", "--out", *(word for word in words if word.startswith("--"))}:
        assert option in helped


def test_the_pages_have_the_claims_as_the_file_has_them() -> None:
    for page, text in papers.pages():
        assert page.read_text(encoding="utf-8") == text, "python -m benchmarks.papers --write"


def test_no_page_of_a_system_judges_by_hand() -> None:
    for page, text in papers.pages():
        judged = re.findall(r"^- (?:Not r|R)eproduced.*$", text, flags=re.M)
        assert not judged, f"{page}: verdicts follow from the file of claims"


def test_experiments_are_named_with_their_folder_or_not() -> None:
    assert papers.chosen(["gavel.load"]) == ["gavel.load"]
    assert papers.chosen(["cassini", "cassini.paper"]) == [
        name for name in papers.MINUTES if name.startswith("cassini.")
    ]
    with pytest.raises(InputError, match=r"Did you mean 'gavel.load'"):
        papers.chosen(["gavel.laod"])
    commanded = {shlex.split(command)[2].removeprefix("benchmarks.") for command in COMMANDS}
    own = {name for name in commanded if name.partition(".")[0] not in ("estimators",)}
    assert own <= set(papers.MINUTES)


def test_the_command_prints_all_systems_one_and_all_of_one_claim() -> None:
    assert [line.partition(": ")[0] for line in papers.told("").splitlines()] == [*systems()]
    assert all(f"{claim.name}: " in papers.told("gavel") for claim in claims_of("gavel"))
    assert papers.told("gavel.load-3x").startswith("gavel.load-3x: not reproduced\n")
    with pytest.raises(InputError, match="Did you mean 'load-3x'"):
        papers.told("gavel.load-3")


TEXTS = {
    "docs/systems/gavel.md": {
        "beats the one that does not": ("gavel", "testbed-aware"),
        "space sharing beats none": ("gavel", "testbed-sharing"),
        "share as their weights say": ("gavel", "hierarchy-meant"),
        "within 5 % of Gavel's simulator": ("gavel", "simulator"),
        "three times shorter completion times": ("gavel", "load-3x"),
    },
    "docs/systems/dally.md": {
        "overheads of Table I over racks": ("dally", "table1"),
        "less communication than Tiresias": ("dally", "comm-direction"),
        "a shorter mean completion time than Tiresias": ("dally", "jct-tiresias-batch"),
        "Tuned timers do not beat": ("dally", "manual-batch"),
    },
    "docs/systems/ada_srsf.md": {
        "both theorems": ("ada_srsf", "theorems"),
        "LWF-1 before first fit": ("ada_srsf", "lwf-first-fit"),
        "before list scheduling before random": ("ada_srsf", "list-random"),
        "saves 20 % of SRSF(1)": ("ada_srsf", "gain"),
    },
}
"""What pages say in words, behind "Reproduced" or "Not reproduced", and the claim that it is of."""


@pytest.mark.parametrize("page", TEXTS)
def test_pages_say_in_words_what_the_file_says(page: str) -> None:
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    for words, (system, name) in TEXTS[page].items():
        before, found, _ = text.partition(words)
        assert found, f"{page} does not say {words!r} any more"
        told = re.findall(r"(not )?reproduced", before, flags=re.I)[-1].lower()
        verdict = next(claim.verdict for claim in claims_of(system) if claim.name == name)
        assert f"{told}reproduced" == verdict, (page, words)


def test_the_readme_says_in_words_what_the_file_says() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for row, (system, name) in {
        "Dally's gain over Tiresias": ("dally", "jct-tiresias-batch"),
        "Ada-SRSF's gain over SRSF(1)": ("ada_srsf", "gain"),
    }.items():
        verdict = next(claim.verdict for claim in claims_of(system) if claim.name == name)
        assert f"| {row} | {verdict} |" in text
