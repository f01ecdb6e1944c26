from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.seeds import ranges_of_seeds
from tests.sim.contention.drawn import Case, connected, drawn, play

import apportion as ap
from apportion.errors import InputError
from apportion.sim.contention import PlainEngine
from apportion.sim.contention.fast import FastEngine

if TYPE_CHECKING:
    from collections.abc import Callable


def assert_agree(fast: Any, seed: int, draw: Callable[[int], Case] = drawn) -> None:
    case = draw(seed)
    engines = PlainEngine(*case[:4]), fast(*case[:4])
    plain_s, fast_s = (play(engine, case) for engine in engines)
    assert plain_s == fast_s  # to the last bit
    jobs = np.array([*plain_s], dtype=np.intp)
    plain, fast_one = (engine.so_far(jobs) for engine in engines)
    for theirs, ours in zip(plain, fast_one, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert engines[0].events == engines[1].events


@pytest.mark.parametrize(
    "seed", [*range(30), *(pytest.param(each, marks=pytest.mark.slow) for each in range(100, 300))]
)
def test_the_compiled_engine_does_what_the_plain_one_does(seed: int) -> None:
    pytest.importorskip("numba")
    assert_agree(FastEngine, seed)


@pytest.mark.parametrize(
    "seeds", [range(20, 32, 11), pytest.param(range(200), marks=pytest.mark.slow)]
)
def test_jobs_that_meet_through_others_on_links(seeds: range) -> None:
    """Many servers, jobs in some of them: gates look further than at a transfer's own links."""
    pytest.importorskip("numba")
    for seed in seeds:
        assert_agree(FastEngine, seed, connected)


@pytest.mark.parametrize("seeds", ranges_of_seeds(3, 60))
def test_turns_beyond_64_bits_have_the_same_outcome(seeds: range) -> None:
    """Nanoseconds of work left, times GPUs, times iterations: slow links make large numbers."""
    pytest.importorskip("numba")
    racks = ap.Cluster.of_racks(2, machines_per_rack=2, gpus_per_machine=2, accelerator="v100")
    for seed in seeds:
        rng = np.random.default_rng(seed)
        drawn_jobs = ap.generate_contended_workload(seed=seed, scale=0.05)
        jobs = drawn_jobs.jobs[drawn_jobs.jobs["scale_factor"] <= 8][:5]
        steps = rng.choice([1.0, 20.0, 60.0], len(jobs))
        workload = replace(drawn_jobs, jobs=jobs.assign(total_steps=steps, arrival_s=0.0))
        settings: dict[str, Any] = {
            "s_per_byte": float(rng.choice([1e-3, 1.0, 1e3])),
            "order": ["srsf", "srtf", "least_attained"][seed % 3],
        }
        plain = ap.simulate("srsf_2", workload, racks, engine="plain", **settings)
        try:
            found = ap.simulate("srsf_2", workload, racks, engine="fast", **settings)
        except InputError as error:
            refused = str(error)
        else:
            refused = ""
            assert found.jobs["completion_s"].tolist() == plain.jobs["completion_s"].tolist()
        assert not refused or "more than compiled code counts" in refused


_INTERPRETED = """
from tests.sim.contention.test_engines_agree import assert_agree
from apportion.sim.contention.fast import FastEngine

for seed in range(15):
    assert_agree(FastEngine, seed)
print("agree")
"""


def test_what_is_compiled_does_the_same_interpreted() -> None:
    """What is compiled must not say something else to those who read it as Python."""
    done = subprocess.run(
        [sys.executable, "-c", _INTERPRETED],
        cwd=Path(__file__).parents[3],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "agree\n", done.stderr
