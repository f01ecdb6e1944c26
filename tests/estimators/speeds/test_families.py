"""Rows of families, against one normal distribution of everything, conditioned at once."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import pytest
from tests.estimators.speeds.drawn import drawn_covariance

from apportion.estimators import ColumnMeans, EstimatedSpeeds
from apportion.estimators.speeds.completion import priors_of_families
from apportion.estimators.speeds.prior import SpeedPrior
from apportion.sim.job_types import job_types

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

SHARES = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9)


class Ran(NamedTuple):
    job: Any
    column: Any


def normal(families: list[str], alike: float, covariance: Floats) -> Floats:
    """Covariance of the deviations of all rows, one after the other."""
    same = np.array([[one == other for other in families] for one in families], dtype=float)
    mixed = alike * same + (1 - alike) * np.eye(len(families))
    return np.asarray(np.kron(mixed, covariance), dtype=np.float64)


def doubt(alike: float, count: int) -> float:
    """Share of the variance of a row that is left after so many others of its family."""
    joint = normal(["a"] * (count + 1), alike, np.eye(1))
    return float(1 - joint[-1, :-1] @ np.linalg.solve(joint[:-1, :-1], joint[:-1, -1]))


@pytest.mark.parametrize("seed", range(20))
def test_families_are_one_normal_distribution(seed: int) -> None:
    """A further row of a family, given all others, by conditioning the joint distribution."""
    rng = np.random.default_rng(seed)
    size, count = int(rng.integers(3, 6)), int(rng.integers(4, 9))
    covariance = drawn_covariance(rng, size)
    families = [str(name) for name in rng.choice(["a", "b", "c"], count)]
    deviations = rng.multivariate_normal(np.zeros(size), covariance, count, method="cholesky")
    # No noise and mean scales of 0: what was measured are the deviations, and nothing is shrunk.
    rows = deviations - deviations.mean(axis=1, keepdims=True)
    prior = SpeedPrior(np.zeros(size), covariance, np.zeros((0, size)), 0.1, 0.0, 1e-4)
    found = priors_of_families(prior, rows, families)
    assert set(found) == set(families)
    # The one share of the grid by which all families have what is left in doubt.
    left = {name: np.trace(each.covariance) / np.trace(covariance) for name, each in found.items()}
    shares = [
        alike
        for alike in SHARES
        if all(abs(doubt(alike, families.count(n)) - left[n]) < 1e-9 for n in found)
    ]
    assert len(shares) == 1
    for name, each in found.items():
        joint = normal([*families, name], shares[0], covariance)
        seen = slice(0, count * size)
        new = slice(count * size, None)
        gain = np.linalg.solve(joint[seen, seen], joint[seen, new]).T
        np.testing.assert_allclose(
            each.covariance, joint[new, new] - gain @ joint[seen, new], atol=1e-8
        )
        # Constants are lost with the scale; the rest of the mean is that of the joint one.
        mean = gain @ expected_deviations(rows, covariance).reshape(-1)
        np.testing.assert_allclose(each.mean, mean, atol=1e-6)


def expected_deviations(rows: Floats, covariance: Floats) -> Floats:
    """Deviations of rows by generalised least squares of their scale, with no noise."""
    inverse = np.linalg.inv(covariance + 1e-8 * np.eye(len(covariance)))
    scale = rows @ inverse.sum(axis=1) / inverse.sum()
    return np.asarray((rows - scale[:, None]) @ inverse @ covariance)


def test_what_a_family_says_halves_the_error_of_who_never_ran() -> None:
    """On the 26 job types, 12 of them references: mean |log error| less the job's scale."""
    table = job_types()
    ways: tuple[Literal["job", "family"], ...] = "job", "family"
    errors: dict[str, list[float]] = {way: [] for way in ways}
    for seed in range(3):
        rng = np.random.default_rng(seed)
        drawn = np.sort(rng.choice(len(table), 12, replace=False))
        others = table.drop(index=table.index[drawn])
        for rows in ways:
            beliefs = EstimatedSpeeds(table.iloc[drawn], rows=rows)
            beliefs.admit(list(range(len(others))), others.index)
            off = np.log(beliefs.expected(range(len(others))) / others.to_numpy())
            errors[rows].append(float(np.abs(off - off.mean(axis=1, keepdims=True)).mean()))
    assert np.mean(errors["family"]) < 0.65 * np.mean(errors["job"])


@pytest.mark.thorough
@pytest.mark.parametrize(
    "seeds", [range(5), pytest.param(range(5, 150), marks=pytest.mark.slow)], ids=["few", "more"]
)
def test_whatever_the_references_speeds_are_told_and_states_go_on(seeds: range) -> None:
    """Tables with holes, with zeros, of hardly any rows; jobs with nothing left, failed runs."""
    for seed in seeds:
        rng = np.random.default_rng(seed)
        columns = [f"t{place}" for place in range(rng.integers(1, 6))]
        names = [f"{rng.choice(list('abc'))} ({row})" for row in range(rng.integers(0, 7))]
        speeds = np.exp(rng.choice([0.1, 1, 5]) * rng.normal(size=(len(names), len(columns))))
        speeds[rng.random(speeds.shape) < 0.3] = np.nan
        if names:
            speeds[0, 0] = rng.choice([0.0, 1.0, 1e-50, 1e15])
        table = pd.DataFrame(speeds, names, columns)
        seconds = float(10 ** rng.uniform(-3, 6))
        for model in (None, ColumnMeans()) if (table > 0).to_numpy().any() else (None,):
            begin = partial(
                EstimatedSpeeds,
                *(table, columns),
                rows="family",
                optimism="worth",
                model=model,
                trial_s=seconds,
            )
            beliefs, jobs = begin(), list(range(5))
            beliefs.admit(jobs, [f"{rng.choice(list('abcd'))} (x)" for _ in jobs])
            beliefs.tell_steps_left(jobs, 10 ** rng.uniform(-5, 12, 5) * rng.integers(0, 2, 5))
            for _ in range(4):
                told = beliefs.speeds(jobs)
                assert (np.isfinite(told) & (told >= 0)).all()
                ran = Ran(rng.choice(jobs, 3, replace=False), rng.integers(0, len(columns), 3))
                beliefs.observe(ran, rng.choice([0.0, 1.0, 1e6, 1e-6], 3), [60.0] * 3)
            beliefs.refit()
            again = begin()
            again.restore(json.loads(json.dumps(beliefs.state())))
            np.testing.assert_array_equal(again.speeds(jobs), beliefs.speeds(jobs))
