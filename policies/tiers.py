"""Network tiers as options: which gangs pack into machines and racks.

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
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse

from apportion.cluster import TIERS
from apportion.errors import unknown_name
from apportion.policies.resource import Resource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from apportion.cluster import Cluster
    from apportion.tensor import ThroughputTensor
    from apportion.types import Floats, Ints


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


def pack_gangs(tensor: ThroughputTensor, cluster: Cluster, scale_factor: Ints) -> GangPacking:
    """State that gangs pack into machines and racks, where the options are network tiers.

    For machines and for racks by themselves the limits are exact: what meets them is an average of
    packings of gangs of these sizes. Like the number of GPUs they count gangs, not jobs: a packing
    may hold two gangs of a size where only one job has it. And what meets the limits of machines
    and of racks need not be an average of packings into both at once.

    Parameters
    ----------
    tensor
        Throughputs; nothing is stated if the options have no tiers.
    scale_factor
        GPUs of each job of the tensor, shape (jobs,).

    Raises
    ------
    InputError
        For an unknown tier, and for GPUs that do not fill whole machines and racks.
    """
    tier = tiers_of_options(tensor)
    if tier is None:
        return GangPacking([], np.full(len(tensor.options), np.inf), "")
    kinds = tensor.accelerator_of_option
    sizes = {
        kind: (cluster.machine_size(kind), cluster.rack_size(kind)) for kind in dict.fromkeys(kinds)
    }
    most = [
        (*sizes[kind], None)[inside] or np.inf for kind, inside in zip(kinds, tier, strict=True)
    ]
    largest, gang = np.array(most, dtype=float), np.zeros(len(tensor.rows), dtype=np.int64)
    row, job = tensor.member_places
    np.maximum.at(gang, row, scale_factor[job].astype(np.int64))
    runs = (tensor.values > 0).groupby(level=0, sort=False).all().loc[tensor.rows].to_numpy()
    each = gang[:, None] if tensor.gpus_of_option is None else tensor.gpus_of_option.astype(int)
    gangs = np.where(runs & (each <= largest), each, 0)
    resources, notes = [], []
    for accelerator in filter(cluster.gpus.get, sizes):
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
