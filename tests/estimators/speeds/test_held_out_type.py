"""A type that no reference has seen: how far estimates by data sheets are off, and how sure."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from apportion.estimators import EstimatedSpeeds
from apportion.sim.job_types import job_types


def errors_without(held: str, seed: int) -> tuple[list[float], list[float]]:
    """Return errors of logarithms of speeds on a type, and the deviations that are predicted."""
    table = job_types()[["v100", "p100", "k80"]].astype(float)
    known = [place for place, name in enumerate(table.columns) if name != held]
    order = np.random.default_rng(seed).permutation(len(table))
    references = table.iloc[order[:12]].copy()
    references[held] = np.nan
    beliefs = EstimatedSpeeds(references)
    errors, deviations = [], []
    for job in order[12:].tolist():
        steps = table.iloc[job].to_numpy()[known] * 100.0
        ran: Any = SimpleNamespace(job=[job, job], column=known)
        beliefs.observe(ran, steps, [100.0, 100.0])
        column = table.columns.get_loc(held)
        errors.append(float(np.log(beliefs.expected([job])[0, column] / table.iloc[job][held])))
        deviations.append(float(beliefs.spread([job])[0, column]))
    return errors, deviations


def test_estimates_by_data_sheets_are_near_and_not_too_sure() -> None:
    """All types taken for equal, they were off by 1.00 in the root mean square."""
    found = [errors_without(held, seed) for held in ("v100", "p100", "k80") for seed in range(4)]
    errors, deviations = (np.concatenate([each[k] for each in found]) for k in (0, 1))
    assert np.sqrt((errors**2).mean()) < 0.65
    assert np.mean(np.abs(errors) <= deviations) > 0.68
    assert np.mean(deviations) < 1.2
