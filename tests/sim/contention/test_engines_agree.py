from __future__ import annotations

import importlib
import sys
from typing import Any

import numpy as np
import pytest
from tests.sim.contention.drawn import drawn, play

from apportion.sim.contention import PlainEngine

KERNEL = ("jit", "sharing_kernel", "kernel_jobs", "kernel_links", "kernel", "fast")


@pytest.fixture(scope="module")
def uncompiled() -> Any:
    """The engine for numba as plain Python: the same lines, without half a minute of compiling."""
    home = "apportion.sim.contention"
    names = [f"{home}.{name}" for name in KERNEL]
    kept = {name: sys.modules.get(name) for name in [*names, "numba"]}
    for name in names:
        sys.modules.pop(name, None)
    sys.modules["numba"] = None  # type: ignore[assignment]
    try:
        fast = importlib.import_module(f"{home}.fast")
    finally:
        for name, module in kept.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module
    parent = importlib.import_module(home)
    for name in KERNEL:
        if kept[f"{home}.{name}"] is not None:
            setattr(parent, name, kept[f"{home}.{name}"])
    return fast


def assert_agree(fast: Any, seed: int) -> None:
    case = drawn(seed)
    engines = PlainEngine(*case[:4]), fast(*case[:4])
    plain_s, fast_s = (play(engine, case) for engine in engines)
    assert plain_s.keys() == fast_s.keys()
    for job, when_s in plain_s.items():
        assert fast_s[job] == pytest.approx(when_s, rel=1e-9, abs=1e-9)
        assert engines[1].computed_s(job) == pytest.approx(engines[0].computed_s(job), rel=1e-9)
        assert engines[1].sent(job) == pytest.approx(engines[0].sent(job), rel=1e-9)
    assert engines[0].events == engines[1].events


@pytest.mark.parametrize("seed", range(30))
def test_the_engine_in_arrays_does_what_the_plain_one_does(uncompiled: Any, seed: int) -> None:
    assert importlib.import_module("apportion.sim.contention.fast") is not uncompiled
    assert_agree(uncompiled.FastEngine, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 300))
def test_the_compiled_engine_does_what_the_plain_one_does(seed: int) -> None:
    pytest.importorskip("numba")
    from apportion.sim.contention.fast import FastEngine

    assert_agree(FastEngine, seed)


@pytest.mark.parametrize("seed", range(8))
def test_the_same_case_has_the_same_outcome_to_the_last_bit(seed: int) -> None:
    case = drawn(seed)
    first, second = (play(PlainEngine(*case[:4]), case) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("seed", range(20))
def test_all_bytes_of_all_iterations_are_moved_and_all_tasks_computed(seed: int) -> None:
    case = drawn(1000 + seed)
    engine = PlainEngine(*case[:4])
    here = [job._replace(arrival_s=0.0) for job in case.jobs]
    for number, job in enumerate(here):
        engine.add(number, *job[:5], 0.0)
    engine.run(0.0, np.inf, to_completion=False)
    for number, job in enumerate(here):
        iteration, times, gpus, links, *_ = job
        sends = [send for send in iteration.sends if links or np.isfinite(send.most)]
        assert engine.left(number) == 0
        assert engine.sent(number) == pytest.approx(times * sum(send.size for send in sends))
        assert engine.computed_s(number) == pytest.approx(times * len(gpus) * iteration.compute_s)
