"""What leaves a run as it is: another order of its input, another process."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from joblib.externals.loky.backend.reduction import dumps

from apportion.experiments import sweep
from apportion.sim.workload_tables import by_arrival_and_id
from apportion.testing.stays import TOLERANCE

if TYPE_CHECKING:
    import pandas as pd

    from apportion.sim.run import Run
    from apportion.sim.workload import Workload
    from apportion.testing.run_case import RunCase


def same_twice(case: RunCase, run: Run) -> None:
    """Run again: tables are the same to the last bit."""
    _compare_tables(case, "deterministic", "a second run", run, case.run())


def same_when_pickled(case: RunCase, run: Run) -> None:
    """Run a copy, as it is sent to other processes."""
    broken = "the same after pickling"
    try:
        decider, settings = pickle.loads(dumps((case.decider, dict(case.settings))))
    except Exception as error:  # whatever keeps it from being sent
        said = f"{type(error).__name__}: {error}; keep no files, locks and generators in it"
        case.fail(broken, said, error)
    copy = replace(case, decider=decider, settings=settings)
    _compare_tables(case, broken, "a copy's run", run, copy.run())


def same_in_two_workers(case: RunCase, run: Run) -> None:
    """Run with two seeds in two processes, and compare the figures."""
    broken = "the same in worker processes"
    settings = {name: value for name, value in case.settings.items() if name != "seed"}
    first = int(case.settings.get("seed", 0))
    seeds = [first, first + 1]
    other = replace(case, settings={**settings, "seed": seeds[1]})
    told = {"seeds": seeds, "n_jobs": 2, "progress": False, **settings}
    try:
        swept = sweep([case.decider], case.workload, case.cluster, **told).table()
    except Exception as error:  # of what cannot be sent, or does not stand there
        case.fail(broken, f"{type(error).__name__}: {error}", error)
    for place, here in enumerate((run, other.run())):
        row = swept.iloc[place]
        if row["error"] is not None:
            case.fail(broken, f"there it fails with {row['error']}")
        for name in ("mean_jct_s", "makespan_s"):
            if row[name] != here.summary()[name]:
                numbers = f"{name} is {row[name]!r} there and {here.summary()[name]!r} here"
                case.fail(broken, f"{numbers}, with seed={seeds[place]}")


def same_under_other_names(case: RunCase, run: Run) -> None:
    """Give all jobs names that come in the same order, and put their rows in another one."""
    index = case.workload.jobs.index
    order = (
        by_arrival_and_id(cast("Workload", case.workload)).jobs.index.get_indexer(index).tolist()
    )
    names = [f"other-{place * 7 + 3}" for place in order]
    renamed = case.workload.jobs.set_axis(names)
    shuffled = renamed.iloc[np.random.default_rng(len(names)).permutation(len(names))]
    other = replace(case, workload=replace(case.workload, jobs=shuffled))
    got = other.run().jobs["completion_s"].loc[names].set_axis(run.jobs.index)
    _compare(case, "indifferent to the names and rows of jobs", run, got)


def same_with_equal_jobs_swapped(case: RunCase, run: Run) -> None:
    """Turn the names of jobs that are equal in everything around; each has what its name had."""
    jobs = case.workload.jobs
    equal = jobs.fillna(-1.0).groupby(jobs.columns.tolist(), sort=False).indices.values()
    place = np.arange(len(jobs))
    for twins in equal:
        place[twins] = twins[::-1]
    swapped = replace(case.workload, jobs=jobs.set_axis(jobs.index[place]))
    got = replace(case, workload=swapped).run().jobs["completion_s"]
    _compare(case, "indifferent to equal jobs", run, got)


def same_with_types_in_another_order(case: RunCase, run: Run) -> None:
    """List the types of the cluster in another order."""
    gpus = case.cluster.gpus
    names = [*list(gpus)[1:], next(iter(gpus))]
    turned = replace(case.cluster, gpus={name: gpus[name] for name in names})
    got = replace(case, cluster=turned).run().jobs["completion_s"]
    _compare(case, "indifferent to the order of types", run, got)


def same_without_gpus_of_a_type(case: RunCase, run: Run) -> None:
    """List a type of which the cluster has no GPU."""
    table: Any = case.workload
    known = replace(table, throughputs=table.throughputs.assign(none=5.0))
    prices = {"none": 1.0, **case.cluster.prices_per_gpu_hour}
    more = replace(case.cluster, gpus={"none": 0, **case.cluster.gpus}, prices_per_gpu_hour=prices)
    got = replace(case, workload=known, cluster=more).run().jobs["completion_s"]
    _compare(case, "indifferent to a type without GPUs", run, got)


def _compare(case: RunCase, broken: str, run: Run, got: pd.Series) -> None:
    """Compare completion times by job."""
    expected = run.jobs["completion_s"]
    off = (got.reindex(expected.index) - expected).abs() / expected
    if not (off <= TOLERANCE).all():
        job: Any = off.idxmax()
        case.fail(broken, f"job {job!r} is complete at {got[job]}, not {expected[job]} s")


def _compare_tables(case: RunCase, broken: str, what: str, run: Run, got: Run) -> None:
    """Compare all tables of two runs, to the last bit."""
    before, now = ({"jobs": each.jobs, "rounds": each.rounds, **each.tables} for each in (run, got))
    if before.keys() != now.keys():
        case.fail(broken, f"{what} has the tables {sorted(now)}, not {sorted(before)}")
    for name, table in before.items():
        if not table.equals(now[name]):
            case.fail(broken, f"{what} has another table {name!r}{_first(table, now[name])}")


def _first(one: pd.DataFrame, other: pd.DataFrame) -> str:
    """Say where two tables first differ, if they have the same cells."""
    if one.shape != other.shape or list(one.columns) != list(other.columns):
        return f", of {len(other)} rows instead of {len(one)}"
    apart = ~((one == other) | (one.isna() & other.isna())).to_numpy()
    if not apart.any():
        return ""
    row, column = (int(each) for each in np.argwhere(apart)[0])
    name = one.columns[column]
    return f": {name} in row {row} is {other.iloc[row, column]!r}, not {one.iloc[row, column]!r}"
