"""A queue alone starts its jobs when `simulate` does, from any moment on, to the last digit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

import apportion as ap
from apportion.mechanism.batch.scheduler import BatchScheduler, QueuedJobs, starts_alone
from apportion.sim.deciders import get_decider

if TYPE_CHECKING:
    from apportion.types import Ints

pytestmark = pytest.mark.usefixtures("free_starts")

KINDS = {"a100": 6, "v100": 5, "k80": 3}
DECIDERS = (
    "fcfs",
    "easy",
    "conservative",
    "minimum_completion_time",
    BatchScheduler("few", backfill="conservative", depth=2, gpus_per_reservation=2),
)
SEEDS = [*range(4), *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(4, 8))]
SEEDS += [pytest.param(seed, marks=pytest.mark.slow) for seed in range(8, 60)]


def drawn(seed: int) -> tuple[ap.Workload, str]:
    """Draw jobs of whole seconds, often at once, on some of one to three types, and limits."""
    rng = np.random.default_rng([seed, 5])
    kinds = dict(list(KINDS.items())[: int(rng.integers(1, 4))])
    count = int(rng.integers(1, 60))
    asks = rng.choice(["any", *kinds], count)
    most = np.array([max(kinds.values()) if ask == "any" else kinds[ask] for ask in asks])
    took_s = rng.choice([1, 60, 60, 600, 3600, 40_000], count) + rng.integers(0, 3, count)
    jobs = pd.DataFrame(
        {
            "arrival_s": np.sort(rng.integers(0, 900 * count, count) // 300 * 300).astype(float),
            "job_type": asks,
            "scale_factor": np.minimum(rng.choice([1, 1, 2, 4, 5], count), most),
            "total_steps": took_s.astype(float),
        },
        index=[f"j{number:03d}" for number in range(count)],
    )
    if rng.uniform() < 0.6:
        said = np.where(rng.uniform(size=count) < 0.7, took_s * rng.integers(1, 4, count), np.nan)
        jobs["time_limit_s"] = np.maximum(said, took_s // 2)
    rows = {
        (kind, gpus): [float(kind in ("any", on)) for on in kinds]
        for kind, gpus in set(zip(asks.tolist(), jobs["scale_factor"].tolist(), strict=True))
    }
    index = pd.MultiIndex.from_tuples(rows, names=["job_type", "scale_factor"])
    speeds = pd.DataFrame(list(rows.values()), index=index, columns=[*kinds])
    log = ap.Workload("drawn", jobs, speeds)
    return log, ",".join(f"{kind}={gpus}" for kind, gpus in kinds.items())


def from_then(
    log: ap.Workload, now_s: float, start_s: pd.Series[float], on: pd.Series[str], here: Ints
) -> tuple[QueuedJobs, dict[int, int]]:
    """Return jobs as they are at a moment, and the types of those that run."""
    jobs, types = log.jobs.iloc[here], [*log.throughputs.columns]
    first = sorted(range(len(types)), key=types.__getitem__)  # of types as fast as each other
    begun = start_s.iloc[here].to_numpy() < now_s
    had_s = np.where(begun, now_s - start_s.iloc[here].to_numpy(), 0.0)
    limit_s = jobs.get("time_limit_s", pd.Series(np.nan, index=jobs.index)).to_numpy() - had_s
    queued = QueuedJobs(
        jobs["arrival_s"].tolist(),
        jobs["scale_factor"].tolist(),
        (jobs["total_steps"].to_numpy() - had_s).tolist(),
        limit_s.tolist(),
        [[k for k in first if kind in ("any", types[k])] for kind in jobs["job_type"]],
    )
    kinds = on.iloc[here].tolist()
    return queued, {int(job): types.index(kinds[job]) for job in np.flatnonzero(begun)}


@pytest.mark.parametrize("number", range(len(DECIDERS)))
@pytest.mark.parametrize("seed", SEEDS)
def test_starts_are_those_of_the_simulation(seed: int, number: int) -> None:
    log, cluster = drawn(seed)
    decider = get_decider(DECIDERS[number])
    run = ap.simulate(decider, log, cluster)
    start_s = run.jobs["start_s"].loc[log.jobs.index]
    end_s = run.jobs["completion_s"].loc[log.jobs.index]
    on = run.schedule.drop_duplicates("job").set_index("job")["accelerator"].loc[log.jobs.index]
    capacity = list(ap.Cluster.of(cluster).gpus.values())
    # Moments at which something is decided: a scheduler that is asked in between may answer anew.
    events_s = np.unique([*log.jobs["arrival_s"], *end_s])[:-1]
    drawn_s = np.random.default_rng(seed).choice(events_s, min(5, events_s.size), replace=False)
    if decider.keeps:  # what was reserved before is not told
        drawn_s = drawn_s[:0]
    for now_s in (0.0, *drawn_s.tolist()):
        here = np.flatnonzero((end_s > now_s).to_numpy())
        queued, running = from_then(log, now_s, start_s, on, here)
        found = starts_alone(decider, queued, capacity, now_s, running, here.size)
        expected = start_s.iloc[here].clip(lower=now_s)
        assert found == expected.tolist()
        ends = np.array(found) + np.array(queued.left_s)
        assert (ends == end_s.iloc[here].to_numpy()).all()


def test_who_never_starts_never_starts() -> None:
    jobs = QueuedJobs([0.0, 1.0], [2, 1], [5.0, 5.0], [np.nan] * 2, [[0], [0]])
    fcfs = get_decider("fcfs")
    assert starts_alone(fcfs, jobs, [1], 0.0, {}, 2) == [np.inf, np.inf]
    assert starts_alone(fcfs, replace(jobs, gpus=[1, 1]), [1], 0.0, {}, 1) == [0.0]
