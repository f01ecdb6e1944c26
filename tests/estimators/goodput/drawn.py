from __future__ import annotations

import numpy as np

from apportion.estimators.goodput import BatchLimits, Goodput, StepTimes


def drawn_goodput(rng: np.random.Generator, *, accumulates: bool = True) -> Goodput:
    """A job whose times, noise and limits lie anywhere in wide ranges."""
    times = np.exp(rng.uniform(np.log(1e-3), np.log(1.0), 6)) * np.array([1, 0.1] * 3)
    least = int(rng.integers(1, 6))
    limits = BatchLimits(
        initial=int(rng.integers(1, 40)),
        largest=int(rng.integers(40, 200)),
        local_least=least,
        local_most=int(rng.integers(least, 60)),
        accumulates=accumulates,
    )
    noise = float(rng.choice([0.0, np.inf, np.exp(rng.uniform(-2, 9)), np.exp(rng.uniform(2, 6))]))
    return Goodput(StepTimes(*[*times, rng.uniform(1, 10)]), noise, limits)
