"""How gangs pack into machines or racks: linear limits on how many of each size fit at once.

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

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from apportion.types import Floats


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
