from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from apportion.errors import InputError
from apportion.estimators import estimate_pairs, interference_errors
from apportion.estimators.estimate import draw_measurements
from apportion.sim.generators.generate import generate_pair_throughputs
from apportion.sim.traces.oracle import read_pair_oracle
from benchmarks.estimators.simple import SIMPLE_PAIRS, simple_pairs

if TYPE_CHECKING:
    from pathlib import Path

    from apportion.pairs import PairThroughputs


def mean_error(
    oracle: PairThroughputs, references: int, share: float, noise: float = 0.0, seeds: int = 6
) -> float:
    truth = oracle.normalized()
    estimates = (
        estimate_pairs(oracle, references, share, seed, noise=noise) for seed in range(seeds)
    )
    return float(
        np.mean([interference_errors(each.normalized(), truth)["mae"] for each in estimates])
    )


def single_gpu(public_data: Path) -> PairThroughputs:
    oracle = read_pair_oracle(public_data / "gavel" / "simulation_throughputs.json.gz")
    return oracle.select([key for key in oracle.keys.tolist() if key[1] == 1])


def test_on_published_measurements_the_error_is_below_gavels(public_data: Path) -> None:
    oracle = single_gpu(public_data)
    truth = oracle.normalized()
    # The constant's error is known for these measurements: the protocol is Gavel's.
    constant = interference_errors(np.full_like(truth, truth.mean()), truth)
    assert constant["mae"] == pytest.approx(0.175, abs=5e-4)
    assert constant["rmse"] == pytest.approx(0.234, abs=5e-4)
    errors = {share: mean_error(oracle, 16, share) for share in (0.1, 0.2, 0.4, 0.8)}
    assert errors[0.2] < 0.75 * 0.104
    # Nor does what is completed lose to the nearest reference by itself, told the same.
    nearest = []
    for seed in range(6):
        rng = np.random.default_rng([seed, 1])
        references = np.sort(rng.permutation(len(truth))[:16])
        guess = simple_pairs(SIMPLE_PAIRS[2], truth, references, 0.2, 0.0, seed)
        nearest.append(interference_errors(guess, truth)["mae"])
    assert errors[0.2] < 0.9 * np.mean(nearest)
    assert mean_error(oracle, 8, 0.2) < 0.75 * 0.195
    assert errors[0.1] > errors[0.2] > errors[0.4] > errors[0.8]


def test_everything_known_is_exact() -> None:
    oracle = generate_pair_throughputs(seed=2)
    estimate = estimate_pairs(oracle, 26, 1.0, 0)
    np.testing.assert_allclose(estimate.own, oracle.own, rtol=1e-3)


def test_errors_by_hand() -> None:
    truth = np.array([[0.6, 0.9], [0.3, 0.2]])[:, :, None]
    estimate = np.array([[0.4, 0.9], [0.0, 0.2]])[:, :, None]
    errors = interference_errors(estimate, truth)
    assert errors["mae"] == pytest.approx(0.5 / 4)
    assert errors["rmse"] == pytest.approx(np.sqrt(0.13 / 4))
    # Only the last pair is judged alike: 1.2 and 0.8, 1.2 and 0.9 (twice), 0.4 and 0.4.
    assert errors["pack_agreement"] == 0.25


def test_bad_input_is_named() -> None:
    oracle = generate_pair_throughputs(seed=0, accelerators=["v100"], scale_factors=(1, 4))
    with pytest.raises(InputError, match=r"measured_share is 1\.5; it must be a number"):
        estimate_pairs(oracle, 4, 1.5)
    with pytest.raises(InputError, match="references is 0"):
        estimate_pairs(oracle, 0, 0.5)
    with pytest.raises(InputError, match="no reference job type with scale factor 4"):
        estimate_pairs(oracle, [("A3C", 1)], 0.5)
    with pytest.raises(InputError, match=r"Unknown key .*'A3D'.* Did you mean .*A3C"):
        estimate_pairs(oracle, [("A3D", 1)], 0.5)
    options: dict[str, Any]
    for options in ({"noise": np.nan}, {"noise": -1}, {"noise": True}, {"noise": "q"}):
        with pytest.raises(InputError, match="noise is"):
            estimate_pairs(oracle, 4, 0.5, **options)
    for references in (True, 2.5, "q", None):
        with pytest.raises(InputError, match="references is"):
            estimate_pairs(oracle, references, 0.5)  # type: ignore[arg-type]
    for seed in ("q", -1, 2.5, True, None):
        with pytest.raises(InputError, match="seed is"):
            estimate_pairs(oracle, 4, 0.5, seed)  # type: ignore[arg-type]
    for share in (True, "q", np.nan, None):
        with pytest.raises(InputError, match="measured_share is"):
            estimate_pairs(oracle, 4, share)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="noise is nan"):
        draw_measurements(oracle.normalized(), np.arange(2), 0.5, np.random.default_rng(0), np.nan)
