"""Replicas, batches and the cheapest fleet against iterations one by one, and enumeration."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from tests.oracles.inference.replicas_by_iteration import Ask, Kind, cheapest, held, served
from tests.seeds import each_seed

import apportion as ap
from apportion.errors import InputError
from apportion.sim.inference.limits import ServingLimits
from apportion.sim.inference.served_replicas import asked_of, in_order, replicas_of

if TYPE_CHECKING:
    from collections.abc import Callable

TICK_S = 1 / 64
TYPES = ("a", "b")


def draw(seed: int) -> tuple[ap.ServedModel, dict[str, Kind], list[Ask]]:
    """Return a model in seconds, its types in ticks, and requests; times often coincide."""
    random = Random(seed)
    span = random.choice((1, 20, 120))
    ask = [
        Ask(random.randrange(span), random.randint(1, 6), random.choice((0, 0, 1, 3, 9)))
        for _ in range(random.choice((1, 4, 15, 40)))
    ]
    ask.sort(key=lambda each: each.arrival)
    gpus = {name: random.choice((1, 2, 4)) for name in TYPES}
    batch = {name: random.choice((1, 1, 2, 4)) for name in TYPES}
    seconds = {
        name: dict(enumerate(sorted(random.randint(1, 8) for _ in range(batch[name])), 1))
        for name in TYPES
    }
    in_s = {name: {b: t * TICK_S for b, t in each.items()} for name, each in seconds.items()}
    how = random.choice(("own", "request", "tokens"))
    if how == "own":
        kinds = {name: Kind(lambda prompts: prompts[0], {}, 1) for name in TYPES}
        return ap.ServedModel(gpus), kinds, [Ask(a.arrival, a.prompt, 0) for a in ask]
    if how == "request":
        kinds = {name: Kind(by_size(seconds[name]), {}, batch[name]) for name in TYPES}
        return ap.ServedModel(gpus, in_s), kinds, [Ask(a.arrival, a.prompt, 0) for a in ask]
    per_token = {name: random.randint(1, 3) for name in TYPES}
    kinds = {name: Kind(by_tokens(per_token[name]), seconds[name], batch[name]) for name in TYPES}
    prefill = {name: {4: 4 * each * TICK_S} for name, each in per_token.items()}
    cache = None
    if random.random() < 0.7:  # the first type has room for any request
        most = max(held(each) for each in ask)
        cache = {"a": most + random.choice((0, 1, 9)), "b": random.choice((most, 6, 30))}
        kinds = {name: replace(kind, tokens=cache[name]) for name, kind in kinds.items()}
    model = ap.ServedModel(gpus, prefill=prefill, decode=in_s, cache_tokens=cache)
    return model, kinds, ask


def by_size(ticks: dict[int, int]) -> Callable[[list[int]], int]:
    """Return what tells the ticks of a batch by how many there are."""
    return lambda prompts: ticks[len(prompts)]


def by_tokens(ticks: int) -> Callable[[list[int]], int]:
    """Return what tells the ticks of prompts."""
    return lambda prompts: ticks * sum(prompts)


def as_table(asks: list[Ask]) -> pd.DataFrame:
    """Return requests with everything that any model may need."""
    return pd.DataFrame(
        {
            "arrival_s": [each.arrival * TICK_S for each in asks],
            "context_tokens": [float(each.prompt) for each in asks],
            "generated_tokens": [float(each.steps + 1) for each in asks],
            "duration_s": [each.prompt * TICK_S for each in asks],
        }
    )


def fits(asks: list[Ask], kinds: dict[str, Kind], fleet: dict[str, int]) -> bool:
    """Whether each request has room on some replica that there is."""
    return max(map(held, asks)) <= max(kinds[name].tokens for name, n in fleet.items() if n)


def order_of(model: Any, fleet: dict[str, int], asked: pd.DataFrame) -> list[str]:
    """Return the type of each replica, in the order of the library."""
    return in_order(model, fleet, asked_of(asked, model))


def compare(seed: int) -> None:
    """Serve on one drawn fleet in both ways."""
    model, kinds, asks = draw(seed)
    random = Random(seed + 10_000)
    fleet = {name: random.choice((0, 1, 2, 5)) for name in TYPES}
    fleet["a"] += not sum(fleet.values()) or not fits(asks, kinds, fleet)
    gpus = {name: n * model.gpus[name] for name, n in fleet.items()}  # type: ignore[index]
    run = ap.serve_replicas(as_table(asks), model, ap.Cluster(gpus, gpus_per_machine=4)).requests
    order = order_of(model, fleet, as_table(asks))
    wanted = served(asks, [kinds[name] for name in order])
    got = run[["start_s", "ttft_s", "finish_s", "replica"]].to_numpy(dtype=float)
    got[:, 1] += run["arrival_s"]
    got[:, :3] /= TICK_S
    assert [tuple(row) for row in got.astype(int).tolist()] == wanted
    assert run["accelerator"].tolist() == [order[replica] for *_, replica in wanted]


@pytest.mark.parametrize("start", range(0, 100, 50))
def test_served_as_iteration_by_iteration(start: int) -> None:
    for seed in range(start, start + 50):
        compare(seed)


@pytest.mark.slow
def test_many_served() -> None:
    for seed in range(1000, 3000):
        compare(seed)


def enumerate_fleets(seed: int) -> None:
    """Find the cheapest fleet in both ways."""
    model, kinds, asks = draw(seed)
    random = Random(seed + 20_000)
    most = {name: random.choice((0, 1, 3, 4)) for name in TYPES}
    most["a"] += not sum(most.values())
    prices = {name: random.choice((1.0, 2.0, 3.5)) for name in TYPES if most[name]}
    figures = ["request", "ttft", "delay"] + ["tpot"] * (model.prefill is not None)
    slo = {
        f"p{random.choice((50, 90, 99, 100))}_{figure}_s": random.choice((2, 9, 30, 90)) * TICK_S
        for figure in random.sample(figures, random.choice((1, 1, 2)))
    }
    names = [name for name in TYPES if most[name]]
    gpus: Any = model.gpus

    def meets(counts: tuple[int, ...]) -> bool:
        if not sum(counts):
            return False
        fleet = dict(zip(names, counts, strict=True))
        if not fits(asks, kinds, fleet):
            return False
        order = order_of(model, fleet, as_table(asks))
        found = served(asks, [kinds[name] for name in order])
        return all(within(asks, found, name, bound) for name, bound in slo.items())

    cluster = ap.Cluster(
        {name: most[name] * gpus[name] for name in names},
        gpus_per_machine={name: gpus[name] for name in names},
        prices_per_gpu_hour=prices,
    )
    wanted = cheapest(
        [most[name] for name in names], [prices[name] * gpus[name] for name in names], meets
    )
    if wanted is None:
        with pytest.raises(InputError, match=r"is missed: |cache_tokens of a replica"):
            ap.cheapest_gpus(as_table(asks), model, slo, cluster)
        return
    found = ap.cheapest_gpus(as_table(asks), model, slo, cluster)
    assert found.price == pytest.approx(wanted, abs=1e-9)
    assert found.slo["met"].all()


def within(
    asks: list[Ask], found: list[tuple[int, int, int, int]], name: str, bound_s: float
) -> bool:
    """Whether enough requests keep a limit, counted."""
    share, figure = float(name[1:].split("_")[0]) / 100, name.split("_")[1]
    took = [
        {"request": end - a.arrival, "ttft": first - a.arrival, "delay": start - a.arrival}.get(
            figure, (end - first) / max(a.steps, 1)
        )
        for a, (start, first, end, _) in zip(asks, found, strict=True)
        if figure != "tpot" or a.steps
    ]
    kept = sum(each * TICK_S <= bound_s for each in took)
    return kept >= math.ceil(share * len(took) * (1 - 1e-12))


def test_a_slow_type_beside_others_does_not_hide_what_they_reach() -> None:
    asked = pd.DataFrame(
        {"arrival_s": [0.0] * 20, "context_tokens": 100, "generated_tokens": range(5, 25)}
    )
    model = ap.ServedModel(
        prefill={"a100": {1000: 0.05}, "k80": {1000: 0.5}},
        decode={"a100": {1: 0.02, 2: 0.03}, "k80": {1: 0.2, 2: 0.3}},
    )
    cluster = ap.Cluster(
        {"k80": 8, "a100": 12}, prices_per_gpu_hour={"k80": 0.1, "a100": 2.0}
    )  # with all of them some requests are served by a k80, in steps too long
    found = ap.cheapest_gpus(asked, model, {"p100_tpot_s": 0.15}, cluster)
    alone = ap.cheapest_gpus(asked, model, {"p100_tpot_s": 0.15}, "a100=12")
    assert found.gpus == {"k80": 0, **alone.gpus}
    with pytest.raises(InputError, match=r"a100=12, the SLO p100_tpot_s=0\.01 is missed"):
        ap.cheapest_gpus(asked, model, {"p100_tpot_s": 0.01}, cluster)


@pytest.mark.parametrize("seed", each_seed(6, 60))
def test_cheapest_of_all_fleets(seed: int) -> None:
    enumerate_fleets(seed)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1000, 1300, 50))
def test_cheapest_of_all_fleets_many(start: int) -> None:
    for seed in range(start, start + 50):
        enumerate_fleets(seed)


@pytest.mark.parametrize("seed", each_seed(5, 20))
def test_replicas_of_one_gpu_without_batches_are_gpus_as_before(seed: int) -> None:
    """One service that never needs loading: what `serve` does, is a replica's batch of one."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 80))
    asked = pd.DataFrame(
        {
            "arrival_s": np.sort(rng.uniform(0, 60, count)),
            "service": "model",
            "duration_s": rng.uniform(0.1, 9, count),
        }
    )
    gpus = int(rng.integers(1, 6))
    one = ap.serve(asked, gpus, cold_start_s=0.0).requests
    many = ap.serve_replicas(asked, ap.ServedModel(), {"t4": gpus}).requests
    for column in ("start_s", "finish_s", "delay_s"):
        assert one[column].tolist() == many[column].tolist()


def test_a_run_that_misses_is_not_ended() -> None:
    asked = as_table([Ask(0, 6, 0), Ask(0, 6, 0)])
    model = ap.ServedModel()
    checked = asked_of(asked, model)
    limits = ServingLimits({"p100_request_s": 6 * TICK_S}, model, checked)
    assert replicas_of(model, {"a": 1}, checked, limits).run() is None
    limits = ServingLimits({"p50_request_s": 6 * TICK_S}, model, checked)
    assert replicas_of(model, {"a": 1}, checked, limits).run() is not None
