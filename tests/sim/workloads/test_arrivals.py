from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from apportion.errors import InputError
from apportion.sim import generate_workload

DAY_S = 86_400.0


def arrivals(**options: Any) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return generate_workload(arrivals="diurnal", **options).jobs["arrival_s"].to_numpy()


def test_diurnal_arrivals_fill_the_days_asked_for() -> None:
    drawn = arrivals(jobs=5000, days=21.0)
    assert drawn.size == 5000
    assert drawn[0] == 0
    assert (np.diff(drawn) >= 0).all()
    assert 20.9 < drawn[-1] / DAY_S <= 21.0
    assert arrivals(jobs=4800, jobs_per_hour=20)[-1] / DAY_S == pytest.approx(10, abs=0.1)


def test_same_seed_same_diurnal_arrivals() -> None:
    first, same, other = (arrivals(jobs=50, days=2, seed=seed) for seed in (1, 1, 2))
    assert first.tolist() == same.tolist() != other.tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"arrivals": "diurnl", "days": 3}, "'diurnl'. Did you mean 'diurnal'"),
        ({"arrivals": "diurnal"}, "either days or jobs_per_hour"),
        ({"arrivals": "diurnal", "days": 3, "jobs_per_hour": 2}, "either days or jobs_per_hour"),
        ({"arrivals": "diurnal", "days": -3}, "days is -3"),
        ({"arrivals": "diurnal", "days": float("nan")}, "days is nan"),
        ({"days": 3}, "days is 3; it is for arrivals='diurnal'"),
    ],
)
def test_bad_arrivals_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        generate_workload(**options)
