"""What an event costs where there are more GPUs, servers and jobs: counted calls, not seconds."""

from __future__ import annotations

import math
import sys
from typing import Any

import pytest
from tests.seeds import sampled

from apportion.mechanism.gates import GATES
from apportion.sim.contention import PlainEngine, SharedCost, all_reduced

SERVERS, PER_SERVER = 4, 4


def engine_of(blocks: int, jobs: int, gate: str) -> PlainEngine:
    """Blocks of four servers, each with so many jobs on three of the four, none like another."""
    servers = blocks * SERVERS
    engine = PlainEngine(servers * PER_SERVER, servers, SharedCost(1.0, 0.25, 0.0), GATES.of(gate))
    for number in range(blocks * jobs):
        block, own = divmod(number, jobs)
        links = [block * SERVERS + s for s in range(SERVERS) if (s + own) % SERVERS]
        gpus = [link * PER_SERVER + own % PER_SERVER for link in links]
        length = 1 + number * (math.sqrt(5) - 1) / 2 % 1
        iteration = all_reduced(length, 1.3 * length, 0.5 + 0.3 * length)
        engine.add(number, iteration, 12, gpus, links, (1, 0), 0.0)
    return engine


def calls_per_event(blocks: int, jobs: int, gate: str) -> float:
    """Count calls of functions, those of builtins included."""
    engine, calls, before = engine_of(blocks, jobs, gate), 0, sys.getprofile()

    def count(frame: object, event: str, of: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        engine.run(0.0, math.inf, to_completion=False)
    finally:
        sys.setprofile(before)
    assert engine.events == blocks * jobs * 12 * (3 * 2 + 1)
    return calls / engine.events


@pytest.mark.thorough
@pytest.mark.parametrize("gate", sampled(["ada_dual", "always", "at_most_1", "at_most_2"], 4))
def test_an_event_costs_the_same_on_sixteen_times_as_many_servers(gate: str) -> None:
    # Both so large that no list is short enough to be gone through.
    assert calls_per_event(32, 8, gate) <= 1.1 * calls_per_event(2, 8, gate)


@pytest.mark.parametrize("gate", ["at_most_1", "ada_dual"])
def test_an_event_costs_little_more_with_four_times_as_many_jobs_on_the_same_gpus(
    gate: str,
) -> None:
    assert calls_per_event(4, 32, gate) <= 2.0 * calls_per_event(4, 8, gate)
