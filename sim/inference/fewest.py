"""The fewest GPUs that serve a load within its SLO, by simulation of every number that might do.

Numbers below a bound, which no way of serving meets, are not tried.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.checks import number, whole
from apportion.errors import InputError
from apportion.sim.inference.requests import offered_load, peak_gpus
from apportion.sim.inference.served import serve_alone, with_slo
from apportion.sim.inference.serving import Serving

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apportion.mechanism.inference import ProtectTimes
    from apportion.sim.inference.served import ServingRun
    from apportion.types import Floats


_STARTS = 200
"""Most stretches of a length that are looked at; of long ones four to the length."""


def least_gpus(requests: pd.DataFrame, attainment: float) -> int:
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
    return max(1, math.ceil(best * (1 - 1e-9)))


def _starts(arrival_s: Floats, length_s: float, missed: int, most: int) -> Floats:
    """Return arrivals after which most requests come within a length of time, if enough do."""
    count = np.searchsorted(arrival_s, arrival_s + length_s, side="right") - np.arange(
        arrival_s.size
    )
    order = np.argsort(-count, kind="stable")[:most]
    return arrival_s[order[count[order] > missed]]


_BEYOND = 2
"""How many larger numbers are tried, to see whether more GPUs are as good."""


@dataclass(frozen=True, repr=False, eq=False)
class FewestGpus:
    """The fewest GPUs for a load, and how it is known.

    Parameters
    ----------
    gpus
        The fewest: every smaller number was tried, or is ruled out by `least`.
    attainment
        Share of requests that must end within their SLO.
    least
        A bound: with fewer GPUs the load of some stretch of time does not fit, see
        `apportion.sim.inference.fewest.least_gpus`.
    enough
        So many GPUs are never all in use; more than that change nothing.
    square_root_rule
        What E + 2 sqrt(E) says, E being the Erlangs of the busiest hour; for comparison.
    busiest_erlangs
        Offered load of the busiest hour.
    tried
        Every number that was simulated: ``gpus``, ``slo_attainment``, ``p99_delay_s`` and
        ``attained``, whether that is enough.
    run
        The simulation with `gpus` GPUs.
    """

    gpus: int
    attainment: float
    least: int
    enough: int
    square_root_rule: int
    busiest_erlangs: float
    tried: pd.DataFrame
    run: ServingRun

    def __repr__(self) -> str:
        return (
            f"<FewestGpus: {self.gpus} GPUs for {self.attainment:.2%} within the SLO "
            f"({self.run.slo_attainment:.2%} are); at least {self.least} by the load>"
        )


def fewest_gpus(
    requests: Any,
    attainment: float = 0.99,
    *,
    cold_start_s: float | Mapping[str, float] = 6.0,
    protect: ProtectTimes | float = 1.0,
    slo_factor: float | None = None,
    gpus_per_node: int = 4,
) -> FewestGpus:
    """Find the fewest GPUs on which enough requests end within their SLO.

    Attainment need not grow with every GPU: where a request goes decides which services stay
    loaded. So there is no bisection: every number is simulated, from the bound by the load upwards,
    until one does. Two more are tried, and the number that are never all in use: more change
    nothing.

    Parameters
    ----------
    requests
        As in `serve`, with an SLO.
    attainment
        Share of requests that must end within their SLO, above 0 and at most 1.
    cold_start_s, protect, slo_factor, gpus_per_node
        As in `serve`.

    Raises
    ------
    InputError
        For what `serve` refuses, requests without an SLO, an attainment out of range, and one that
        is missed even where a GPU is always left over (fewer GPUs are not tried then).
    """
    share = number("attainment", attainment, strict=True, most=1.0)
    settings = Serving(
        with_slo(requests, slo_factor),
        cold_start_s=cold_start_s,
        protect=protect,
    )
    if "slo_s" not in settings.requests:
        raise InputError("The requests have no SLO: give a column 'slo_s', or slo_factor.")
    per_node = whole("gpus_per_node", gpus_per_node, 1)
    return _search(settings, share, per_node)


def _search(settings: Serving, share: float, per_node: int) -> FewestGpus:
    asked = settings.requests
    least = least_gpus(asked, share)
    runs: dict[int, ServingRun] = {}

    def run_on(gpus: int) -> ServingRun:
        if gpus not in runs:
            runs[gpus] = serve_alone(settings, gpus, per_node)
        return runs[gpus]

    enough = max(least, peak_gpus(asked))
    while (used := int(run_on(enough).requests["gpu"].nunique())) == enough:
        enough *= 2
    most = used + 1
    if not _attains(run_on(enough), share):
        raise _missed(run_on(enough), share, most)
    gpus = least
    while not _attains(run_on(gpus), share):
        gpus += 1
    for more in range(gpus + 1, min(gpus + _BEYOND, most) + 1):
        run_on(more)
    load = offered_load(asked)
    tried = [_row(runs[each], share) for each in sorted(runs)]
    return FewestGpus(
        *(gpus, share, least, most, peak_gpus(asked), float(load.max())),
        tried=pd.DataFrame(tried),
        run=runs[gpus],
    )


def _attains(run: ServingRun, share: float) -> bool:
    """Whether enough requests meet their SLO, counted in whole requests."""
    met = run.requests["slo_met"]
    return int(met.sum()) >= math.ceil(share * len(met) * (1 - 1e-12))


def _row(run: ServingRun, share: float) -> dict[str, Any]:
    p99 = float(np.percentile(run.requests["delay_s"], 99))
    return {
        "gpus": run.gpus,
        "slo_attainment": run.slo_attainment,
        "p99_delay_s": p99,
        "attained": _attains(run, share),
    }


def _missed(run: ServingRun, share: float, most: int) -> InputError:
    missed = run.requests[~run.requests["slo_met"]]
    cold = float(missed["cold"].mean())
    return InputError(
        f"With {most} GPUs one is always left over, and more change nothing, but only "
        f"{run.slo_attainment:.4%} of the requests end within their SLO, not {share:.4%}: of those "
        f"that do not, {cold:.0%} had a cold start. Give a longer SLO, a lower attainment, shorter "
        f"cold starts or longer protect times."
    )
