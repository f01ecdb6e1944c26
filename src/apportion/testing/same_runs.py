"""What leaves a run as it is: another order of its input, a pause, another process."""

from __future__ import annotations

import pickle
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from joblib.externals.loky.backend.reduction import dumps

from apportion.experiments import sweep
from apportion.sim.about import AboutRun
from apportion.sim.engine.snapshot import NoStateError, Snapshots
from apportion.sim.settings import charged, settings_for
from apportion.sim.simulation import carried_out
from apportion.sim.workload_tables import by_arrival_and_id
from apportion.testing.stays import TOLERANCE
from apportion.threads import one_thread

if TYPE_CHECKING:
    import pandas as pd

    from apportion.sim.run import Run
    from apportion.sim.workload import Workload
    from apportion.testing.run_case import RunCase

_STOPS, _FOR_GOOD = 4, 10**9
"""So often a run is stopped; more steps than it has."""


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


class _Stopped(Exception):
    """The run is to go on from its snapshot."""


class _Stops(Snapshots):
    """Stops a run, once it has been asked so often, behind a snapshot."""

    def __init__(self, path: Path, left: int) -> None:
        super().__init__(path, {}, 0.0)
        self.left, self.asked = left, 0

    def note(self, *where: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Count, or write down where the run is and stop it."""
        self.asked += 1
        if self.asked > self.left:
            self.write(*where)
            raise _Stopped


def same_from_snapshots(case: RunCase, run: Run) -> None:
    """Stop the run some times, and let it go on from its state with parts made anew.

    A scheduler that has no state says so, and is left alone.
    """
    broken = "the same when it goes on from a snapshot"
    try:
        got = _stopped_and_gone_on(case)
    except NoStateError:
        return
    except Exception as error:  # of a state that no file holds, or from which nothing goes on
        case.fail(broken, f"{type(error).__name__}: {error}", error)
    _compare_tables(case, broken, "then it", run, got)


def _stopped_and_gone_on(case: RunCase) -> Run:
    """Return a run that has been stopped some times, at times that have been counted before."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.json"
        counting = _Stops(path, _FOR_GOOD)
        _carried_out(case, counting)
        pace = max(1, counting.asked // (_STOPS + 1))
        for left in [pace] * _STOPS:
            with suppress(_Stopped):
                return _carried_out(case, _Stops(path, left))
        return _carried_out(case, _Stops(path, _FOR_GOOD))


@one_thread
def _carried_out(case: RunCase, snapshots: Snapshots) -> Run:
    """Simulate with snapshots of our own."""
    told = dict(case.settings)
    beliefs, mechanism = told.pop("beliefs", None), told.pop("mechanism", None)
    elastic = case.workload.elastic
    told = charged([case.decider], mechanism, told, elastic=elastic)
    chosen, known = settings_for([case.decider], mechanism, told, elastic=elastic)
    about = AboutRun.of(case.workload, case.cluster, chosen, known, beliefs)
    return carried_out(case.decider, chosen, about, snapshots)


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
