"""The worked examples in docs/reference/simulator.md: what it says comes out is what comes out."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.mechanism.batch.plain_quotas import by_hand
from tests.mechanism.batch.test_kueue_evictions import (
    A3_B5_C1,
    FINAL,
    INITIAL,
    LIMITS,
    SHARED_TEN,
    THREES,
    Running,
    fairly,
    go,
    ledger_of,
    units,
)

from apportion.mechanism.batch.kai import QueueDemand, fair_shares
from apportion.mechanism.batch.multifactor import MultifactorPriority

pytestmark = pytest.mark.usefixtures("free_starts")

DOCUMENT = Path(__file__).parents[3] / "docs" / "reference" / "simulator.md"
# GPUs, seconds and arrivals on 8 GPUs: the second waits for the first, the third for both.
FOUR = [("a", 6, 10, 0, 0), ("a", 4, 10, 1, 0), ("a", 8, 5, 2, 0), ("a", 2, 30, 3, 0)]


def ends(*jobs: tuple[str, int, int, int, int], gpus: int, **options: Any) -> str:
    return ", ".join(f"{each:g}" for each in by_hand(*jobs, gpus=gpus, **options))


def slurm_factors() -> str:
    """Of three users, each with a third of the shares, who had a third, nothing and two thirds."""
    jobs: Any = SimpleNamespace(
        active=np.arange(3),
        scale=np.ones(3),
        capacity=np.array([4.0]),
        arrival_s=np.zeros(3),
        facts={},
        texts={},
        entities=("even", "none", "more"),
    )
    use: Any = SimpleNamespace(by_entity=lambda _: np.array([10.0, 0.0, 20.0]), entity=np.arange(3))
    only = MultifactorPriority(age_weight=0, job_size_weight=0, partition_weight=0)
    return ", ".join(f"{each / 10_000:g}" for each in only.of(jobs, use, 0.0))


def at_once(**options: Any) -> str:
    quotas = {"team-a": {"v100": 9}, "team-b": {"v100": 12}}
    found = by_hand(*[("team-a", 1, 10, 0, 0)] * 22, gpus=21, quotas=quotas, **options)
    return str(found.count(10.0))


def who_gets_free_gpus() -> str:
    """Of six that fall free."""
    lengths = (10, 11, 12, 13, 14, 14, 100, 100, 100, 100)
    jobs = [("a", 1, length, 0, 0) for length in lengths] + [("b", 1, 50, 5, 0)] * 5
    quotas = {name: {"v100": gpus} for name, gpus in {"a": 3, "b": 1, "shared": 4}.items()}
    found = by_hand(*jobs, gpus=8, quotas=quotas, fair_sharing=[FINAL, INITIAL])
    starts = [(end - job[2], job[0]) for job, end in zip(jobs, found, strict=True)]
    return " ".join(queue for start, queue in sorted(starts)[8:14] if start > 0)


def share(**told: Any) -> str:
    ledger = ledger_of({"a": 5, "b": 5}, **told)
    ledger.used[0][0] = 7
    return f"{ledger.share(0)[1]:g}"


def reclaimed() -> str:
    jobs = [(q, 1, 100, 0, p) for q in ("q0", "q1") for p in (50, 50, 49)] + [("r", 2, 10, 10, 50)]
    told: dict[str, Any] = {
        "deserved": {"q0": 1, "q1": 1, "r": 2},
        "over_quota_weights": {"r": 0.0},
    }
    found = by_hand(*jobs, scheduler="kai", gpus=6, **told)
    return ", ".join(
        f"{job[0]} {job[4]}" for job, end in zip(jobs, found, strict=True) if end == 110
    )


def what_comes_out() -> list[tuple[str, str]]:
    train, build = ("test", 1, 50, 0, 50), ("test", 1, 10, 5, 100)
    only_one: dict[str, Any] = {"limits": {"test": 1}, "deserved": {"test": 1}}
    borrows: dict[str, Any] = {
        "borrow_within_cohort": "LowerPriority",
        "max_priority_threshold": 0.0,
    }
    best_effort = {"ae": [Running(10, -1)], "be": units(1, -1)}
    weights: list[dict[str, Any]] = [{}, *({"fair_weights": {"a": w}} for w in (2.0, 0.5))]
    ten, used = (
        [QueueDemand(10, 2, w) for w in (1, 4)],
        [QueueDemand(10, used=u) for u in (0.3, 0.1)],
    )
    shares = [fair_shares(11, ten), fair_shares(10, used, k=1.0)]
    divided, decayed = (", ".join(map(str, each)) for each in shares)
    limited = {"borrowing_limits": {"team-a": {"v100": 1}}}
    return [
        ("easy", ends(*FOUR, gpus=8, scheduler="easy")),
        ("conservative", ends(*FOUR, gpus=8, scheduler="conservative")),
        ("slurm", slurm_factors()),
        ("kueue", f"{at_once()}, {at_once(**limited)}"),
        ("kueue", ", ".join(share(**told) for told in weights)),
        ("kueue", who_gets_free_gpus()),
        ("kueue", " ".join(fairly(THREES, A3_B5_C1, ("a", 1, 0)))),
        ("kueue", " ".join(go(SHARED_TEN, best_effort, ("as", 10, 0), told=LIMITS, **borrows))),
        ("kai", divided),
        ("kai", decayed),
        ("kai", reclaimed()),
        ("kai", ends(train, build, scheduler="kai", gpus=4, **only_one)),
    ]


def test_the_table_of_worked_examples() -> None:
    text = DOCUMENT.read_text().split("<!-- worked examples -->")[1].split("<!-- end")[0]
    rows = [[each.strip() for each in row.strip("|").split("|")] for row in text.split("\n") if row]
    table = [(row[0].strip("`"), row[2], row[3]) for row in rows[2:]]
    assert table == [(name, got, got) for name, got in what_comes_out()]
    assert all(len(row) == 5 and row[4] for row in rows)
