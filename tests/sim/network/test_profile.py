from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.errors import InputError
from apportion.sim.network import Cost, Exchange, Layer, ModelProfile, exposed_s
from apportion.sim.network.collectives import end_in_orders_s

if TYPE_CHECKING:
    from collections.abc import Sequence

COSTS = {name: (Cost(0.5, 2.0),) for name in ("all_reduce", "all_gather", "all_to_all")}
SECONDS = st.floats(0, 8)


def layer(forward_s: float, input_s: float, weight_s: float, sent: float) -> Layer:
    return Layer("layer", forward_s, input_s, weight_s, Exchange("all_reduce", sent))


LAYERS = st.lists(st.builds(layer, SECONDS, SECONDS, SECONDS, SECONDS), min_size=1, max_size=9)


def simulated_end_s(
    layers: Sequence[Layer], costs: Sequence[Cost], last_first: Sequence[bool] = ()
) -> float:
    """Play one iteration event by event: one compute stream, and a queue for each dimension."""
    tasks = [(x.forward_s, 0.0) for x in layers]
    for x in reversed(layers):
        tasks += [(x.weight_gradient_s, x.weight_gradient.size_bytes), (x.input_gradient_s, 0.0)]
    serial = 0
    last_first = last_first or [False] * len(costs)
    events = [(0.0, serial, -1, -1)]  # time, order, dimension left (-1: compute), task
    queues: list[list[int]] = [[] for _ in costs]
    busy, clock = [False] * len(costs), 0.0
    while events:
        clock, _, place, what = heapq.heappop(events)
        if place >= 0:
            busy[place] = False
            if place + 1 < len(costs):
                queues[place + 1].append(what)
        else:
            if what >= 0 and tasks[what][1]:
                queues[0].append(what)
            if what + 1 < len(tasks):
                serial += 1
                heapq.heappush(events, (clock + tasks[what + 1][0], serial, -1, what + 1))
        if events and events[0][0] == clock:
            continue
        for dimension, (queue, cost) in enumerate(zip(queues, costs, strict=True)):
            if queue and not busy[dimension]:
                what = max(queue) if last_first[dimension] else min(queue)
                queue.remove(what)
                busy[dimension], serial = True, serial + 1
                through_s = clock + cost.latency_s + tasks[what][1] * cost.s_per_byte
                heapq.heappush(events, (through_s, serial, dimension, what))
    return clock


@given(LAYERS, st.lists(st.builds(Cost, SECONDS, SECONDS), min_size=1, max_size=4))
def test_exposed_communication_is_that_of_an_event_simulation(
    layers: list[Layer], costs: list[Cost]
) -> None:
    if sum(x.forward_s + x.input_gradient_s + x.weight_gradient_s for x in layers) == 0:
        return
    profile = ModelProfile("random", tuple(layers))
    exposed = exposed_s(profile, {"all_reduce": costs})
    assert exposed == pytest.approx(simulated_end_s(layers, costs) - profile.compute_s, abs=1e-9)
    one = Cost(sum(c.latency_s for c in costs), sum(c.s_per_byte for c in costs))
    assert exposed <= exposed_s(profile, {"all_reduce": [one]}) + 1e-9


@given(st.integers(0, 10**6))
def test_messages_in_other_orders_are_those_of_an_event_simulation(seed: int) -> None:
    """Times that no two events share: ties are broken by a convention only."""
    rng = np.random.default_rng(seed)
    layers = [layer(*rng.uniform(0, 4, 4)) for _ in range(int(rng.integers(1, 9)))]
    costs = [Cost(*rng.uniform(0, 3, 2)) for _ in range(int(rng.integers(1, 4)))]
    last_first = (rng.random(len(costs)) < 0.7).tolist()
    profile = ModelProfile("random", tuple(layers))
    exposed = exposed_s(profile, {"all_reduce": costs}, last_first)
    end_s = simulated_end_s(layers, costs, last_first)
    assert exposed == pytest.approx(max(end_s - profile.compute_s, 0.0), abs=1e-9)


def test_the_last_message_first_by_hand() -> None:
    # Messages of 3, 1 and 2 s at 1, 2 and 3; the outer dimension takes 0, 1 and 4 s for them.
    parts = [(1.0, Exchange("a", 1.0), False), (1.0, Exchange("b", 1.0), False)]
    parts.append((1.0, Exchange("c", 1.0), False))
    costs = {"a": (Cost(3, 0), Cost(0, 0)), "b": (Cost(1, 0), Cost(1, 0))}
    costs["c"] = (Cost(2, 0), Cost(4, 0))
    assert end_in_orders_s(parts, costs, [False, False]) == 4 + 1 + 2 + 4  # c is out at 7
    assert end_in_orders_s(parts, costs, [True, False]) == 4 + 2 + 4 + 1  # c from 6, b after it


def test_exchanges_that_are_waited_for_are_exposed_in_full() -> None:
    wait = Exchange("all_gather", 1.0)
    part = Layer("part", 1, 1, 1, forward=wait, input_gradient=Exchange("all_to_all", 2.0))
    profile = ModelProfile("model parallel", (part, part))
    assert exposed_s(profile, COSTS) == pytest.approx(2 * (2.5 + 4.5))
    assert profile.all_reduce_bytes == profile.skew == 0


def test_scaling_changes_compute_and_nothing_else() -> None:
    profile = ModelProfile("two", (layer(1, 2, 3, 1), layer(4, 5, 6, 3)))
    scaled = profile.scaled(0.1)
    assert scaled.compute_s == pytest.approx(2.1)
    assert scaled.all_reduce_bytes == 4
    for bad in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(InputError, match="compute scale"):
            profile.scaled(bad)


def test_profiles_and_layers_that_cannot_be_are_refused() -> None:
    with pytest.raises(InputError, match="layer 'layer' is nan"):
        layer(math.nan, 0, 0, 0)
    with pytest.raises(InputError, match=r"layer 'layer' is -1"):
        layer(1, 0, 0, -1)
    with pytest.raises(InputError, match=r"collective of layer 'x' 'reduce'.*Did you mean"):
        Layer("x", 1, 0, 0, Exchange("reduce", 1.0))
    for layers in ((), (layer(0, 0, 0, 5),)):
        with pytest.raises(InputError, match="'idle' has no layer that computes"):
            ModelProfile("idle", layers)
