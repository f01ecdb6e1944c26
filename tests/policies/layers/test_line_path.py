"""Levels of groups that pass rates on, at any height, against a step for each stop."""

import numpy as np
import pytest

from apportion.policies.solving.worst_off.line_path import LinePath
from apportion.policies.solving.worst_off.own_limits import OwnLimits, Path
from apportion.policies.solving.worst_off.water_filling import Steady
from apportion.policies.water_filling import RatesOfGroups


def drawn(rng: np.random.Generator) -> tuple[RatesOfGroups, OwnLimits, np.ndarray, np.ndarray]:
    """Draw jobs in lines and in crowds, some of which have stopped, and some on their way."""
    jobs, groups = int(rng.integers(1, 30)), int(rng.integers(1, 6))
    weight = rng.integers(1, 4, groups).astype(float)

    def share(alive: np.ndarray) -> np.ndarray:
        passed = np.where(alive, weight, 0.0)
        return np.asarray(passed / passed.sum())

    place = rng.integers(int(rng.choice([1, 3, 100])), size=jobs).astype(float)
    part, per = rng.choice([1.0, 2.0, 0.3], jobs), rng.choice([1.0, 4.0], jobs)
    rates = RatesOfGroups(groups, rng.integers(groups, size=jobs), place, part, per, share)
    most = np.round(rng.lognormal(size=jobs), int(rng.choice([1, 8]))) + 0.1
    active = rng.random(jobs) < rng.choice([0.6, 1.0])
    active[0] = True
    level = most * rng.choice([0.0, 0.0, 0.5, 1.0], jobs)
    return rates, OwnLimits(most, np.zeros(jobs), 0.0), active, level


@pytest.mark.parametrize("part", range(4))
def test_levels_are_those_of_a_path_of_single_stops(part: int) -> None:
    for seed in range(50):
        rng = np.random.default_rng([31, part, seed])
        rates, limits, active, level = drawn(rng)
        path = Path.of(Steady(rates), limits, active, level)
        line = LinePath(rates, limits.most, active, level)
        assert line.last == pytest.approx(path.last, rel=1e-12)
        assert line.first == pytest.approx(path.first, rel=1e-12)
        if not line.last > 0:
            continue
        assert not line.standing(line.last).any()
        stops = path.height[np.diff(path.height, prepend=-1.0) > 1e-9]
        between = (stops[1:] + stops[:-1]) / 2
        for height in [*between, *rng.uniform(0, path.last, 3)]:
            if np.abs(stops - height).min() < 1e-9:
                continue
            known, slope = path.along(height)
            found, rises = line.along(height)
            np.testing.assert_allclose(found, known, rtol=1e-11, atol=1e-12)
            np.testing.assert_allclose(rises, slope, rtol=1e-7, atol=1e-9)
            np.testing.assert_array_equal(line.standing(height), path.standing(height))
        np.testing.assert_array_equal(line.along(line.last)[0][active], limits.most[active])
