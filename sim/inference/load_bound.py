"""A bound on the GPUs that a load needs, whatever serves it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["least_gpus"]

_STARTS = 200
"""Most stretches of a length that are looked at; of long ones four to the length."""


def least_gpus(requests: pd.DataFrame, attainment: float, services_per_gpu: int = 1) -> int:
    r"""Return a number of GPUs below which no schedule reaches the attainment.

    A request that meets its SLO is computed between its arrival and the end of its SLO. So of the
    requests I that come and must end within a stretch of time [a, b], all but the m that may be
    missed need their seconds there:

    .. math:: G \ge \frac{1}{b - a} \Big( \sum_{i \in I} d_i - \text{the $m$ largest } d_i \Big)

    The largest over stretches of lengths in geometric progression is returned, at least 1.

    Parameters
    ----------
    requests
        As `apportion.sim.inference.checked_requests` returns them, with durations and SLOs.
    attainment
        Share of the requests that must meet their SLO.
    services_per_gpu
        Requests that a GPU computes at a time.
    """
    arrival_s, duration_s, slo_s = (
        requests[name].to_numpy(dtype=np.float64) for name in ("arrival_s", "duration_s", "slo_s")
    )
    deadline_s = arrival_s + slo_s
    must = math.ceil(attainment * arrival_s.size * (1 - 1e-12))
    missed = arrival_s.size - must
    span_s = float(deadline_s.max() - arrival_s[0])
    shortest_s = float(slo_s.min())
    lengths = np.geomspace(
        shortest_s, span_s, 1 + max(1, math.ceil(math.log2(span_s / shortest_s)))
    )
    best = 0.0
    for length_s in np.append(lengths, span_s):
        most = min(_STARTS, math.ceil(4 * span_s / length_s))
        for start_s in _starts(arrival_s, float(length_s), missed, most):
            first, last = np.searchsorted(arrival_s, (start_s, start_s + length_s))
            inside = deadline_s[first:last] <= start_s + length_s
            needed = np.sort(duration_s[first:last][inside])
            kept = needed[: max(needed.size - missed, 0)]
            best = max(best, float(kept.sum()) / float(length_s))
    return max(1, math.ceil(best / services_per_gpu * (1 - 1e-9)))


def _starts(arrival_s: Floats, length_s: float, missed: int, most: int) -> Floats:
    """Return arrivals after which most requests come within a length of time, if enough do."""
    count = np.searchsorted(arrival_s, arrival_s + length_s, side="right") - np.arange(
        arrival_s.size
    )
    order = np.argsort(-count, kind="stable")[:most]
    return arrival_s[order[count[order] > missed]]
