from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from apportion import InputError
from apportion.mechanism.configurations import RESTARTS, lost_seconds
from apportion.policies.elastic_values import reallocation_factor


def test_an_unknown_way_is_named() -> None:
    with pytest.raises(InputError, match=r"restart.*'stop'"):
        lost_seconds("stop", 1.0, 1.0, 0, 1)


@pytest.mark.parametrize("kind", sorted(RESTARTS))
def test_what_is_stopped_loses_nothing_and_every_price_is_a_time(kind: str) -> None:
    rng = np.random.default_rng(0)
    first, rescale = rng.uniform(0, 300, (2, 400))
    old, new = rng.integers(0, 5, (2, 400))
    lost_s = lost_seconds(kind, first, rescale, old, new)
    assert (lost_s[new == 0] == 0).all()
    assert ((lost_s >= 0) & (lost_s <= np.maximum(first, rescale))).all()
    started = (old == 0) & (new > 0)
    np.testing.assert_array_equal(lost_s[started], first[started])
    for wrong in (np.nan, -1.0, np.inf, "x"):
        for place in range(4):
            given: list[Any] = [1.0, 1.0, 2, 1]
            given[place] = wrong
            with pytest.raises(InputError, match=r"number"):
                lost_seconds(kind, *given)


def test_every_price_is_what_the_table_says() -> None:
    """In whole seconds, by fractions; and no numbers at all give anything but a time."""
    rng = np.random.default_rng(1)
    for _ in range(300):
        first, rescale = rng.integers(0, 200, 2).tolist()
        old, new = rng.integers(1, 70, 2).tolist()
        wait = math.floor(Fraction(first - rescale) * (new - old) / new)
        grow = {"stop_resume": first, "afe": rescale + wait, "edl": rescale}
        shrink = {"stop_resume": first, "afe": rescale, "edl": 0}
        table = grow if new > old else shrink if new < old else dict.fromkeys(RESTARTS, first)
        found = {kind: float(lost_seconds(kind, first, rescale, old, new)) for kind in RESTARTS}
        assert found == table
    odd = [0.0, -0.0, 1.0, 1e-300, 1e300, 1e18, 3.5]
    for _ in range(300):
        given = [odd[place] for place in rng.integers(0, len(odd), 4)]
        assert all(np.isfinite(lost_seconds(kind, *given)) for kind in RESTARTS)
        assert 0 <= reallocation_factor(*given[:3], started=bool(rng.integers(2))) <= 1
