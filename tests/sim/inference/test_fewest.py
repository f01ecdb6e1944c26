from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from tests.seeds import each_seed

import apportion as ap
from apportion.sim.inference import DiurnalRate, checked_requests, generate_requests
from apportion.sim.inference.fewest import least_gpus

OPTIONS = {"cold_start_s": 2.0, "protect": 0.5}


def generated(seed: int, rate: float = 0.6) -> pd.DataFrame:
    return generate_requests(
        DiurnalRate(rate, day_phase_s=0.0),
        length_s=400.0,
        services=1 + seed % 4,
        durations="lognormal",
        spread=0.8,
        slo_factor=4.0,
        seed=seed,
    )


def reached(requests: pd.DataFrame, gpus: int, share: float) -> bool:
    met = ap.serve(requests, gpus, **OPTIONS).requests["slo_met"]  # type: ignore[arg-type]
    return bool(met.sum() >= math.ceil(share * len(met) * (1 - 1e-12)))


@pytest.mark.parametrize("share", [0.6, 0.95])
@pytest.mark.parametrize("seed", each_seed(2, 4))
def test_equal_to_trying_every_number(seed: int, share: float) -> None:
    requests = generated(seed)
    found = ap.fewest_gpus(requests, share, **OPTIONS)  # type: ignore[arg-type]
    assert found.gpus == next(n for n in range(1, 100) if reached(requests, n, share))
    assert found.least <= found.gpus
    assert found.run.gpus == found.gpus
    many, more = (
        ap.serve(requests, n, **OPTIONS)  # type: ignore[arg-type]
        for n in (found.enough, 3 * found.enough)
    )
    pd.testing.assert_frame_equal(many.requests, more.requests)


def most_met(requests: pd.DataFrame, gpus: int) -> int:
    """Most requests, by enumeration, whose computation alone fits: all pairs of stretches."""
    rows = requests[["arrival_s", "duration_s", "slo_s"]].to_numpy()
    for size in range(len(rows), -1, -1):
        for kept in combinations(rows, size):
            if all(
                sum(d for a, d, slo in kept if a >= start and a + slo <= end)
                <= gpus * (end - start) * (1 + 1e-9)
                for start, _, _ in kept
                for end in (a + slo for a, _, slo in kept)
                if end > start
            ):
                return size
    return 0


@pytest.mark.parametrize("seed", range(12))
def test_bound_is_never_above_what_fits(seed: int) -> None:
    rng = np.random.default_rng(seed)
    duration_s = rng.integers(1, 9, 6).astype(float)
    requests = checked_requests(
        pd.DataFrame(
            {
                "arrival_s": rng.integers(0, 8, 6).astype(float),
                "service": "a",
                "duration_s": duration_s,
                "slo_s": duration_s + rng.integers(0, 4, 6),
            }
        )
    )
    for must in (3, 5, 6):
        fits = next(n for n in range(1, 7) if most_met(requests, n) >= must)
        assert 1 <= least_gpus(requests, must / 6) <= fits


def test_the_bound_is_met_where_all_come_at_once() -> None:
    table = pd.DataFrame({"arrival_s": np.zeros(12), "service": "a", "duration_s": 5.0})
    found = ap.fewest_gpus(table, 1.0, slo_factor=2.0, cold_start_s=0.0)
    assert (found.least, found.gpus) == (6, 6)
    assert ap.fewest_gpus(table, 0.5, slo_factor=2.0, cold_start_s=0.0).gpus == 3


def test_what_has_no_answer() -> None:
    requests = generated(0)
    for share in (0.0, -1.0, 1.5, float("nan")):
        with pytest.raises(ap.InputError, match="attainment is"):
            ap.fewest_gpus(requests, share)
    with pytest.raises(ap.InputError, match="The requests have no SLO"):
        ap.fewest_gpus(requests.drop(columns="slo_s"))
    with pytest.raises(ap.InputError, match="one is always left over, and more change nothing"):
        ap.fewest_gpus(requests, 1.0, cold_start_s=1000.0)
