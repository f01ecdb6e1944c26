"""The life of GPUs that serve requests against the same life followed tick by tick."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.oracles.inference.inference_life import Ask, Case, Life

from apportion.mechanism.inference import GpuState, InferenceGpus, ProtectTimes

if TYPE_CHECKING:
    from collections.abc import Iterator

TICKS = 400


def draw(seed: int) -> Case:
    """Return a random case: few ticks and services, so that times often coincide."""
    random = Random(seed)
    services = [f"s{k}" for k in range(random.choice((1, 1, 2, 3, 8)))]
    gpus = random.choice((1, 1, 2, 3, 6))
    span = random.choice((1, 10, 60, 250))
    longest = random.choice((1, 3, 20))
    asks = sorted(
        (
            Ask(random.randrange(span), random.choice(services), random.randint(1, longest))
            for _ in range(random.choice((1, 5, 20, 40)))
        ),
        key=lambda ask: ask.arrival,
    )
    first, step = random.choice((0, 1, 5, 30)), random.choice((0, 1, 4))
    loans = random.choice((0, 3, 12))
    return Case(
        asks=tuple(asks),
        nodes=tuple(random.randrange(3) for _ in range(gpus)),
        cold={name: random.choice((0, 1, 4)) for name in services},
        first=first,
        step=step,
        most=first + step * random.choice((0, 1, 3)),
        yields=random.choice((0, 1, 7)),
        loans=tuple((random.randrange(span), random.randrange(gpus)) for _ in range(loans)),
        returns=tuple((random.randrange(span), random.randrange(gpus)) for _ in range(loans // 2)),
    )


def drive(case: Case, unit_s: float = 1.0) -> tuple[InferenceGpus, list[tuple[int, int]]]:
    """Live a case with the library, a tick lasting so many seconds; also who was reclaimed when."""
    gpus = InferenceGpus(
        case.nodes,
        {name: cold * unit_s for name, cold in case.cold.items()},
        ProtectTimes(case.first * unit_s, case.step * unit_s, case.most * unit_s),
    )
    reclaims: list[tuple[int, int]] = []

    def call_back(now: int) -> None:
        while gpus.reclaims_due:
            reclaims.append((now, gpus.reclaimable[0]))
            gpus.reclaim(now * unit_s, gpus.reclaimable[0], case.yields * unit_s)

    told = {ask.arrival for ask in case.asks} | {t for t, _ in case.loans + case.returns}
    for now in sorted(told):
        gpus.advance(now * unit_s)
        for gpu in (gpu for t, gpu in case.returns if t == now and gpu in gpus.reclaimable):
            gpus.give_back(now * unit_s, gpu)
        for gpu in (gpu for t, gpu in case.loans if t == now and gpu in gpus.lendable):
            gpus.lend(now * unit_s, gpu)
        for index, ask in enumerate(case.asks):
            if ask.arrival == now:
                gpus.request(now * unit_s, index, ask.service, ask.duration * unit_s)
                call_back(now)
    gpus.advance((TICKS - 1) * unit_s)
    return gpus, reclaims


def by_tick(gpus: InferenceGpus, unit_s: float) -> Iterator[list[tuple[str, str | None]]]:
    """State and service of every GPU at the end of each tick."""
    states = [GpuState.FREE] * len(gpus.states)
    last: list[str | None] = [None] * len(states)
    changes = list(gpus.changes)
    for now in range(TICKS):
        while changes and changes[0].time_s <= now * unit_s:
            change = changes.pop(0)
            states[change.gpu] = change.after
            last[change.gpu] = str(change.service) if change.service else last[change.gpu]
        none = (GpuState.FREE, GpuState.LOANED)
        yield [
            (its.name.lower(), None if its in none else last[gpu]) for gpu, its in enumerate(states)
        ]


def compare(case: Case, unit_s: float = 1.0) -> None:
    """Live a case in both ways."""
    assert_same(drive(case, unit_s), Life(case), unit_s)


def assert_same(
    driven: tuple[InferenceGpus, list[tuple[int, int]]], life: Life, unit_s: float = 1.0
) -> None:
    """Compare starts, ends, GPUs, cold starts, reclaims, and states at all times."""
    (gpus, reclaims), lived = driven, life.run(TICKS)
    got = {
        each.request: (
            each.start_s / unit_s,
            each.end_s / unit_s,
            each.gpu,
            each.cold_start_s / unit_s,
        )
        for each in gpus.served
    }
    assert got == lived.served
    assert reclaims == lived.reclaims
    assert list(by_tick(gpus, unit_s)) == lived.states


@pytest.mark.parametrize("start", range(0, 200, 100))
def test_generated(start: int) -> None:
    for seed in range(start, start + 100):
        compare(draw(seed), unit_s=0.25 if seed % 2 else 1.0)


def test_all_that_ends_at_a_time_has_ended_before_who_waits_chooses() -> None:
    """Of two GPUs that end together the one with more requests in a row goes on."""
    asks = [Ask(0, "a", 9), Ask(0, "a", 2), Ask(4, "a", 5), Ask(8, "a", 1)]
    gpus, _ = drive(Case(tuple(asks), (0, 0), {"a": 0}))
    assert [(got.gpu, got.start_s) for got in gpus.served] == [(0, 0), (1, 0), (1, 4), (1, 9)]


def test_protection_of_no_length_keeps_nobody_else_waiting() -> None:
    asks = [Ask(0, "a", 5), Ask(1, "b", 1), Ask(2, "a", 1)]
    gpus, _ = drive(Case(tuple(asks), (0,), {"a": 1, "b": 1}, first=0, step=1, most=9))
    assert [(got.request, got.start_s) for got in gpus.served] == [(0, 0), (1, 6), (2, 8)]


@pytest.mark.slow
def test_many_generated() -> None:
    for seed in range(1000, 11_000):
        compare(draw(seed))
