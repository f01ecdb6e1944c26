"""Network tiers as options: what packs into machines and racks, and who may use which tier yet.

The options are (accelerator, tier) with the tiers of `apportion.cluster.TIERS`. A gang at the
machine tier lies in one machine, at the rack tier in one rack, at the network tier anywhere.

Several gangs share one machine of G GPUs if their sizes sum to at most G. Let ``n_ps`` be the gangs
of size s in packing pattern p. The time averages v_s of running gangs can be had from M machines
iff ``v <= y @ n`` for some ``y >= 0`` that sums to at most M. By duality of linear programs, that
is ``w @ v <= M`` for every vertex w of ``{w >= 0 : n @ w <= 1}``. So the patterns need no
variables: every vertex that no other one dominates is one linear capacity.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse

from apportion.annotations import checked
from apportion.checks import seconds
from apportion.cluster import TIERS
from apportion.errors import InputError, unknown_name, written
from apportion.jobs import check_jobs
from apportion.policies.resource import Resource
from apportion.table_checks import as_floats, check_unique
from apportion.tensor import ThroughputTensor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from apportion.cluster import Cluster
    from apportion.problem_inputs import Jobs, Workers
    from apportion.tensor import Throughputs
    from apportion.types import Floats


class GangPacking(NamedTuple):
    """What gangs that lie in whole machines and racks are limited by, beside the number of GPUs.

    Attributes
    ----------
    resources
        One per linear limit that the GPUs of the type do not imply, in machines or racks.
    largest_gang
        GPUs of the largest gang that fits an option, shape (options,).
    note
        Which of the limits are looser than packing is; empty if none.
    """

    resources: list[Resource]
    largest_gang: Floats
    note: str


class Eligible(NamedTuple):
    """A tensor without the tiers that jobs may not use yet.

    Attributes
    ----------
    tensor
        The throughputs, 0 where a delay timer still runs, without the jobs that are waiting.
    waiting
        Jobs that may run nowhere yet.
    """

    tensor: ThroughputTensor
    waiting: list[Any]


def pack_gangs(tensor: ThroughputTensor, cluster: Cluster, jobs: pd.DataFrame) -> GangPacking:
    """State that gangs pack into machines and racks, where the options are network tiers.

    For machines and for racks by themselves the limits are exact: what meets them is an average of
    packings of gangs of these sizes. Like the number of GPUs they count gangs, not jobs: a packing
    may hold two gangs of a size where only one job has it. And what meets the limits of machines
    and of racks need not be an average of packings into both at once.

    Parameters
    ----------
    tensor
        Throughputs; nothing is stated if the options have no tiers.
    jobs
        With the ``scale_factor`` of every job of the tensor.

    Raises
    ------
    InputError
        For an unknown tier, and for GPUs that do not fill whole machines and racks.
    """
    tier = tiers_of_options(tensor)
    if tier is None:
        return GangPacking([], np.full(len(tensor.options), np.inf), "")
    kinds = tensor.accelerator_of_option
    sizes = {kind: (cluster.machine_size(kind), cluster.rack_size(kind)) for kind in kinds.unique()}
    most = [
        (*sizes[kind], None)[inside] or np.inf for kind, inside in zip(kinds, tier, strict=True)
    ]
    largest, gang = np.array(most, dtype=float), np.zeros(len(tensor.rows), dtype=np.int64)
    row, job = tensor.member_places
    np.maximum.at(gang, row, jobs["scale_factor"].loc[tensor.jobs].to_numpy(dtype=np.int64)[job])
    runs = (tensor.values > 0).groupby(level=0, sort=False).all().loc[tensor.rows].to_numpy()
    each = gang[:, None] if tensor.gpus_of_option is None else tensor.gpus_of_option.astype(int)
    gangs = np.where(runs & (each <= largest), each, 0)
    resources, notes = [], []
    for accelerator in filter(cluster.gpus.get, kinds.unique()):
        for inside, gpus in enumerate(sizes[accelerator]):
            here = (kinds == accelerator) & (tier <= inside)
            if gpus is None or not here.any():
                continue
            cluster.racks(accelerator)
            name = f"{accelerator} {TIERS[inside]} packing"
            limits, exact = gang_limits(np.where(here, gangs, 0), gpus)
            units = cluster.gpus[accelerator] // gpus
            for number, usage in enumerate(limits, start=1):
                resources.append(Resource(f"{name} {number}", units, sparse.csr_array(usage)))
            notes += [] if exact else [name]
    note = f"Bounded, not exact, for many gang sizes: {', '.join(notes)}." if notes else ""
    return GangPacking(resources, largest, note)


def gang_limits(gangs: NDArray[np.int64], gpus: int) -> tuple[list[Floats], bool]:
    """Usage by limit, each of shape (rows, options), of the limits that the GPUs do not imply."""
    sizes = np.unique(gangs[gangs > 0])
    if not sizes.size:
        return [], True
    weights, exact = packing_limits(tuple(sizes.tolist()), gpus)
    place = np.minimum(np.searchsorted(sizes, gangs), sizes.size - 1)
    # A limit that follows from the GPUs but for rounding says nothing.
    implied = (weights <= sizes / gpus + 1e-9).all(axis=1)
    return [np.where(gangs > 0, each[place], 0.0) for each in weights[~implied]], exact


def tier_eligibility(
    cluster: Cluster,
    scale_factor: Floats,
    waited_s: Floats,
    machine_timer_s: Floats,
    rack_timer_s: Floats,
) -> NDArray[np.bool_]:
    """Tell which tiers jobs may use after waiting: delay scheduling by tier.

    A gang that fits a machine, of the type that has the largest, may have one at once; the rack is
    open to it after the machine timer, the network after the rack timer, both counted from the same
    start. A gang larger than a machine may have a rack at once, one larger than a rack the network
    (Dally, arXiv 2401.16492).

    Parameters
    ----------
    scale_factor
        GPUs of each job, shape (jobs,).
    waited_s, machine_timer_s, rack_timer_s
        Seconds that each job has waited, and its timers, shape (jobs,).

    Returns
    -------
    NDArray
        Whether each job may use each of `TIERS`, shape (jobs, 3).
    """
    gpus_per_rack = cluster.gpus_per_rack or np.inf
    oversize = scale_factor > cluster.largest_machine
    return np.column_stack(
        [
            ~oversize,
            (scale_factor <= gpus_per_rack) & ((waited_s >= machine_timer_s) | oversize),
            (waited_s >= rack_timer_s) | (scale_factor > gpus_per_rack),
        ]
    )


@checked
def eligible(
    throughput_tensor: Throughputs,
    *,
    workers: Workers | None = None,
    jobs: Jobs | None = None,
    waited_s: float | pd.Series,
    machine_timer_s: float | pd.Series,
    rack_timer_s: float | pd.Series,
) -> Eligible:
    """Set throughputs to 0 on tiers that jobs may not use yet, as `tier_eligibility` tells.

    Parameters
    ----------
    throughput_tensor
        Steps/s of each job under each (accelerator, tier).
    workers
        The cluster; that of the tensor by default.
    jobs
        With the ``scale_factor`` of every job of the tensor; that of the tensor by default.
    waited_s, machine_timer_s, rack_timer_s
        Seconds that jobs have waited since they arrived or last ran, and after which the rack and
        the network tier are open to them: one number, or one by job. Timers may be infinite.

    Raises
    ------
    InputError
        For options without tiers, jobs without a scale factor or a time, and times below 0.
    """
    tensor = ThroughputTensor.of(throughput_tensor, workers=workers, jobs=jobs)
    cluster = tensor.cluster
    tier = tiers_of_options(tensor)
    if tier is None:
        raise InputError(
            f"Delay timers need options (accelerator, tier), with the tiers {', '.join(TIERS)}; "
            f"the tensor has {written(tensor.options[:1].tolist())}."
        )
    known = pd.DataFrame(index=tensor.jobs) if tensor.jobs_table is None else tensor.jobs_table
    table = check_jobs(known, required=["scale_factor"])
    may = tier_eligibility(
        cluster,
        _by_job("scale_factor", table["scale_factor"], tensor.jobs),
        _by_job("waited_s", waited_s, tensor.jobs),
        _by_job("machine_timer_s", machine_timer_s, tensor.jobs),
        _by_job("rack_timer_s", rack_timer_s, tensor.jobs),
    )
    masked = tensor.values.where(may[tensor.member_places[1]][:, tier], 0.0)
    runs = (masked > 0).groupby(level=0, sort=False).all().any(axis=1)
    kept = masked[runs.loc[masked.index.get_level_values(0)].to_numpy()]
    there = kept.index.get_level_values(1)
    still = ThroughputTensor(kept, cluster, table[table.index.isin(there)])
    return Eligible(still, [job for job in tensor.jobs if job not in there])


def tiers_of_options(tensor: ThroughputTensor) -> NDArray[np.intp] | None:
    """Place of each option's tier in `TIERS`; None if the options are something else."""
    names = tensor.option_level("tier")
    if names is None:
        return None
    tier = np.asarray(pd.Index(TIERS).get_indexer(names), dtype=np.intp)
    if (tier < 0).all():
        return None
    if (tier < 0).any():
        raise unknown_name("tier in the throughput tensor", names[tier < 0][0], TIERS)
    return tier


def _by_job(name: str, value: float | pd.Series, ids: pd.Index) -> Floats:
    """Take a number for all jobs, or look up one by job."""
    if isinstance(value, pd.Series):
        for job in ids.difference(value.index, sort=False):
            raise unknown_name(f"job (without {name})", job, value.index)
        check_unique(f"job with {name}", value.index)
        numbers = as_floats(value.loc[ids])
    else:
        numbers = np.full(len(ids), seconds(name, value, infinite=True))
    wrong = ~(numbers >= 0)
    if wrong.any():
        job, number = ids[wrong][0], numbers[wrong][0]
        raise InputError(f"Job {written(job)} has {name} = {number:g}; it must be a number >= 0.")
    return numbers


_MOST_SIZES = 9
_MOST_PATTERNS = 4000
"""With more sizes or patterns than these the vertices take longer than a second or two."""
_SAME = 1e-9
"""Vertices are solutions of small linear systems: weights closer than this are one."""


class PackingLimits(NamedTuple):
    """Linear limits on gangs in machines (or racks) of one number of GPUs.

    Attributes
    ----------
    weights
        ``weights @ v <= machines`` for the average number v of running gangs of each size, shape
        (limits, sizes).
    exact
        Whether these limits say all; if not they are valid, but looser.
    """

    weights: Floats
    exact: bool


def packing_patterns(sizes: tuple[int, ...], gpus: int) -> Iterator[tuple[int, ...]]:
    """Yield how many gangs of each size fill a machine so that no other one fits.

    Parameters
    ----------
    sizes
        GPUs of a gang, increasing and at most `gpus`.
    gpus
        GPUs of the machine.
    """
    if not sizes:
        yield ()
    elif len(sizes) == 1:
        yield (gpus // sizes[0],)
    else:
        for largest in range(gpus // sizes[-1] + 1):
            for others in packing_patterns(sizes[:-1], gpus - largest * sizes[-1]):
                yield (*others, largest)


@lru_cache(maxsize=1024)
def packing_limits(sizes: tuple[int, ...], gpus: int) -> PackingLimits:
    """Return the linear limits on gangs that pack into machines of a number of GPUs.

    Exact for few sizes: the vertices of the dual of the packing patterns. For many sizes they are
    dual feasible functions instead (Fekete and Schepers, 2001), which every packing obeys too.

    Parameters
    ----------
    sizes
        GPUs of a gang, increasing and at most `gpus`.
    gpus
        GPUs of a machine (or rack).
    """
    gang = np.array(sizes, dtype=np.int64)
    if not (gpus % gang).any():
        # Then G/s gangs of size s fill a machine, and those are the corners of s @ v <= G.
        return PackingLimits(gang[None, :] / gpus, exact=True)
    patterns = list(islice(packing_patterns(sizes, gpus), _MOST_PATTERNS + 1))
    if len(sizes) > _MOST_SIZES or len(patterns) > _MOST_PATTERNS:
        return PackingLimits(_undominated(_dual_feasible(gang, gpus)), exact=False)
    return PackingLimits(_vertices(np.array(patterns, dtype=float)), exact=True)


def _vertices(patterns: Floats) -> Floats:
    """Vertices of ``{w >= 0 : patterns @ w <= 1}`` that no other vertex dominates."""
    from scipy.spatial import HalfspaceIntersection  # few solves need it, and all would wait for it

    sizes = patterns.shape[1]
    if sizes == 1:
        return np.asarray(1 / patterns.max(axis=0, keepdims=True), dtype=float)
    above_zero = np.column_stack([-np.eye(sizes), np.zeros(sizes)])
    fits = np.column_stack([patterns, np.full(len(patterns), -1.0)])
    inside = np.full(sizes, 0.5 / patterns.sum(axis=1).max())
    found = HalfspaceIntersection(np.vstack([above_zero, fits]), inside).intersections
    found = np.where(found > _SAME, found, 0.0)
    found = found[found.any(axis=1)]
    # Rounding may leave a vertex just outside or inside: its worst pattern decides the scale.
    return _undominated(found / (found @ patterns.T).max(axis=1, keepdims=True))


def _dual_feasible(gang: NDArray[np.int64], gpus: int) -> Floats:
    """Weights by dual feasible functions: of gangs that fit one machine they sum to at most 1."""
    share = gang / gpus
    weights = [share]
    for k in range(1, gpus):
        whole, rest = np.divmod((k + 1) * gang, gpus)
        weights.append(np.where(rest == 0, share, whole / k))
    for least in gang[2 * gang <= gpus]:
        weights.append(np.where(gang > gpus - least, 1.0, np.where(gang < least, 0.0, share)))
    weights += list(np.diag(1 / (gpus // gang)))
    return np.array(weights)


def _undominated(weights: Floats) -> Floats:
    """Drop repeated rows and rows that another one is nowhere below, in a fixed order."""
    weights = np.unique(np.round(weights, 12), axis=0)
    below = np.all(weights[:, None, :] <= weights[None, :, :] + _SAME, axis=2)
    alike = below & below.T
    worse = (below & ~alike).any(axis=1) | np.triu(alike, k=1).any(axis=1)
    return np.asarray(weights[~worse], dtype=float)
