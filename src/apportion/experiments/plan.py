"""All simulations of an experiment, each with the fingerprint under which its result is kept."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from apportion.checks import listed
from apportion.errors import InputError, unknown_name
from apportion.experiments.fitted_jobs import made_for
from apportion.experiments.machine.cells import Cell
from apportion.experiments.simulations import Setup, Simulation
from apportion.sim.deciders import AnyDecider, get_decider
from apportion.sim.elastic_files import USERS_CHOICE
from apportion.sim.elastic_workload import ELASTIC_COLUMNS
from apportion.sim.fingerprint import fingerprint, texts_of, workload_fingerprint
from apportion.sim.metrics import told_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from apportion.cluster import Cluster
    from apportion.experiments.sources import Source
    from apportion.mechanism.own import Decides
    from apportion.sim import ElasticWorkload, Workload


@dataclass(frozen=True)
class Plan:
    """What is to be simulated.

    Attributes
    ----------
    cells
        One per simulation, in the order of the table.
    setup
        What they share.
    notes
        What a reader of the results must know of the workloads.
    """

    cells: tuple[Cell, ...]
    setup: Setup
    notes: tuple[str, ...] = ()


def deciders_of(
    policies: Iterable[str | AnyDecider | Decides],
    workloads: Iterable[Workload | ElasticWorkload] = (),
) -> list[AnyDecider]:
    """Look up every policy and scheduler, as they are called for such workloads.

    Raises
    ------
    InputError
        For none at all, for one name in place of a list, for unknown names and repetitions.
    """
    elastic = any(each.elastic for each in workloads)
    names = listed("policies", policies, "a list of names")
    chosen = [get_decider(each, elastic=elastic) for each in names]
    if not chosen:
        raise InputError("There is no policy to run: the list of policies is empty.")
    labels = [decider.label for decider in chosen]
    for label, decider in zip(labels, chosen, strict=True):
        same = [repr(each) for each in chosen if each.label == label]
        if len(same) > 1:
            own = type(decider).__name__
            hint = (
                f" Two settings need two names: class Other({own}): name = 'other'."
                if len(set(same)) > 1
                else ""
            )
            called = [name for name, each in zip(names, labels, strict=True) if each == label]
            if all(isinstance(name, str) for name in called) and len({*called}) > 1:
                hint = f" So {' and '.join(map(repr, called))} mean the same."
            raise InputError(f"The policy {label!r} is in the list twice.{hint}")
    return chosen


def check_jobs_on(workload: Workload | ElasticWorkload, cluster: Cluster) -> None:
    """Refuse jobs that can run on no type of a cluster; of elastic ones their runs tell.

    Raises
    ------
    InputError
        Naming the job.
    """
    if workload.elastic is False:
        workload.throughput_of(cluster)


def check_by(column: str | None, workload: Workload | ElasticWorkload) -> None:
    """Refuse a column by which runs have no groups of jobs.

    Raises
    ------
    InputError
        With the nearest of those that there are.
    """
    left_out = {*ELASTIC_COLUMNS, *USERS_CHOICE} if workload.elastic else set()
    told = [name for name in told_columns(workload.jobs) if name not in left_out]
    known = ["job_type", "scale_factor", *told]
    if column is not None and column not in known:
        raise unknown_name("column of the jobs for by", column, known)


def simulations_of(
    source: Source,
    deciders: Sequence[AnyDecider],
    setup: Setup,
    loads: Sequence[float],
    seeds: Sequence[int],
    starts: float = 1.0,
) -> list[Cell]:
    """List simulations of one workload, by cluster, load, policy and seed.

    See `Simulation` on starts.
    """
    clusters: list[str | None] = [str(each) for each in setup.clusters]
    return [
        cell
        for each in clusters or [None]
        for cell in _on_one(source, deciders, setup, loads, seeds, starts, each)
    ]


def _on_one(
    source: Source,
    deciders: Sequence[AnyDecider],
    setup: Setup,
    loads: Sequence[float],
    seeds: Sequence[int],
    starts: float,
    named: str | None,
) -> list[Cell]:
    """List simulations on one cluster."""
    cluster = setup.on(named)
    # Not of the seeds given, so that another seed leaves the fingerprints as they were.
    first = made_for(source, cluster, 1.0, 0, resample=False, beside=setup.clusters)
    data = f"{source.mark} {workload_fingerprint(first)} resample {setup.resample}"
    data += "" if setup.by is None else f" by {setup.by}"
    names = texts_of(first, source.record())
    shared = {
        each.label: fingerprint(
            each, data, cluster, setup.settings_of(each.label, starts), names=names
        )
        for each in deciders
    }
    tasks = [
        Simulation(decider, source.name, load, seed, starts, cluster=named)
        for load, decider, seed in product(loads, deciders, seeds)
    ]
    return [
        Cell(task.label, fingerprint(shared[task.policy.label], task.load, task.seed), task)
        for task in tasks
    ]
