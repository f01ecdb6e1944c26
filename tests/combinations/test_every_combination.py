"""Whatever is asked for runs to its end, or is refused in words; nothing goes on for ever."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.combinations.cases import LIMIT_S

ROOT = Path(__file__).parents[2]
BATCH = 100


def batches(few: int, most: int) -> list[object]:
    """Give a small range of cases, and with ``-m slow`` the rest in batches."""
    rest = [
        pytest.param(first, min(first + BATCH, most), marks=pytest.mark.slow)
        for first in range(few, most, BATCH)
    ]
    return [(0, few), *rest]


def outcomes(kind: str, first: int, last: int) -> list[dict[str, str]]:
    """Run cases in a process of their own, and return what came of each."""
    command = [sys.executable, "-m", "tests.combinations.cases", kind, str(first), str(last)]
    found = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=3600 + LIMIT_S * (last - first)
    )
    assert found.returncode == 0, found.stderr[-2000:]
    told = [json.loads(line) for line in found.stdout.splitlines()]
    assert len(told) == last - first
    return told


def unlike(told: list[dict[str, str]], *fine: str) -> list[str]:
    return [
        f"{each['seed']}: {each['asked']} {each['became']}: {each['text']}"
        for each in told
        if each["became"] not in fine
    ]


@pytest.mark.thorough
@pytest.mark.parametrize(("first", "last"), batches(6, 1200))
def test_every_decider_runs_by_every_mechanism_or_is_refused_in_words(
    first: int, last: int
) -> None:
    """With all columns, and every placement and network."""
    told = outcomes("any", first, last)
    assert unlike(told, "ran", "refused") == []
    assert sum(each["became"] == "ran" for each in told) >= 0.4 * len(told)


@pytest.mark.thorough
@pytest.mark.parametrize(("first", "last"), batches(6, 1200))
def test_what_can_never_end_says_so(first: int, last: int) -> None:
    """Settings at and beyond their limits, and parts by which nothing may ever happen."""
    told = outcomes("impossible", first, last)
    assert unlike(told, "ran", "refused", "stopped") == []
