"""Which (type, tier) a gang likes best."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.ties import ranks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.policies.problem import Problem

    Floats = NDArray[np.float64]

__all__ = ["satisfaction"]


def satisfaction(p: Problem) -> Floats:
    """Tell how many (type, tier) on which a job can run it likes no better than each option.

    Tighter tiers are liked better on a cluster of one type. Of several types faster options are
    liked better, then tighter tiers, then the types in their order. Options that are one (type,
    tier) at different places are the same to a job.

    Returns
    -------
    ndarray
        Whole numbers, 1 for what a job likes least, 0 where it cannot run; shape (rows, options).
    """
    instance = p.instance
    runs, kind, tier = instance.can_run, instance.option_accelerator, p.tier
    pairs, pair = np.unique(np.column_stack([kind, tier]), axis=0, return_inverse=True)
    pair = pair.reshape(-1)
    speed = np.zeros((instance.rows, len(pairs)))
    for place in range(len(pairs)):
        speed[:, place] = np.where(runs, p.speed, 0.0)[:, pair == place].max(axis=1, initial=0.0)
    slowness = np.zeros(speed.shape, dtype=np.intp)
    if instance.accelerators > 1:
        slowness = ranks(-speed.ravel()).reshape(speed.shape)
    keys = (pairs[:, 0], pairs[:, 1], slowness, speed <= 0)
    order = np.lexsort(tuple(np.broadcast_to(key, speed.shape) for key in keys), axis=1)
    place_of = np.empty_like(order)
    np.put_along_axis(place_of, order, np.arange(len(pairs))[None, :], axis=1)
    liked = (speed > 0).sum(axis=1, keepdims=True) - place_of
    return np.where(runs, liked[:, pair], 0).astype(float)
