"""GPU-seconds by entity, those of long ago counting less, against the run's own schedule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from tests.seeds import sampled

import apportion as ap

TOLD: list[tuple[list[str], list[float], list[float]]] = []
"""What the policies below were told: of each job its entity, what that used, and the job's age."""


@dataclass(frozen=True)
class Alike(ap.Policy):
    """Equal shares; takes down what it is told."""

    columns = ("entity", "entity_used_s", "elapsed_s")

    half_life_s: float = np.inf

    def objective(self, p: ap.Problem) -> cp.Maximize:
        names, entity = p.texts("entity"), p.column("entity").astype(int)
        used_s = p.column("entity_used_s").tolist()
        TOLD.append(([names[each] for each in entity], used_s, p.elapsed_s.tolist()))
        return cp.Maximize(cp.min(cp.sum(p.X, axis=1)))


def workload(seed: int, jobs: int = 10) -> ap.Workload:
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "arrival_s": np.sort(rng.uniform(0, 20_000, jobs)).round(),
            "job_type": "train",
            "scale_factor": rng.choice([1, 2], jobs),
            "total_steps": rng.uniform(500, 9_000, jobs).round(),
            "entity": rng.choice(["ann", "bob", "eve"], jobs),
        },
        index=[f"job {each}" for each in range(jobs)],
    )
    index = pd.MultiIndex.from_product([["train"], [1, 2]], names=["job_type", "scale_factor"])
    return ap.Workload("drawn", table, pd.DataFrame({"a100": [1.0, 2.0]}, index=index))


def used_by_schedule(run: ap.Run, load: ap.Workload, now_s: float, half_life_s: float) -> pd.Series:
    """Integrate the GPUs that entities held up to a time; each stay by its closed form."""
    stays = run.schedule
    start, end = np.minimum(stays[["start_s", "end_s"]].to_numpy(), now_s).T
    if np.isfinite(half_life_s):
        rate = np.log(2) / half_life_s
        counts = (np.exp(rate * (end - now_s)) - np.exp(rate * (start - now_s))) / rate
    else:
        counts = end - start
    gpus = load.jobs["scale_factor"].loc[stays["job"]].to_numpy()
    entity = load.jobs["entity"].loc[stays["job"]].to_numpy()
    return pd.Series(counts * gpus).groupby(entity).sum()


@pytest.mark.parametrize("half_life_s", sampled([7200.0, np.inf], 2))
@pytest.mark.parametrize("mechanism", ["rounds", "leases"])
def test_what_entities_used_is_what_the_schedule_says(mechanism: str, half_life_s: float) -> None:
    load = workload(len(mechanism))
    settings: dict[str, Any] = {"rounds": {"round_seconds": 900}}
    settings["leases"] = {"lease_seconds": 900, "network": "none"}
    TOLD.clear()
    policy = Alike(half_life_s)
    run = ap.simulate(
        policy, load, "a100=4", mechanism=mechanism, resolve_every=900, **settings[mechanism]
    )
    assert len(TOLD) > 10
    tolerance = 1e-6
    arrivals = load.jobs.groupby("entity")["arrival_s"]
    for entities, used_s, elapsed_s in TOLD:
        # Which of an entity's jobs the first one is, its age does not say: one of them it is.
        times = sorted(set((arrivals.get_group(entities[0]) + elapsed_s[0]).round(6)))
        found = pd.Series(used_s, entities).groupby(level=0).max()
        expected = [used_by_schedule(run, load, now_s, half_life_s) for now_s in times]
        near = [
            np.allclose(found, each.reindex(found.index, fill_value=0.0), rtol=tolerance, atol=1e-6)
            for each in expected
        ]
        assert any(near), (found, expected)
