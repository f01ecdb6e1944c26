"""The cheapest GPUs, of several types, that serve requests within an SLO, as a whole program.

What is not cheapest is ruled out by a bound on the work, or by a run that misses the SLO.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.cluster import Cluster
from apportion.errors import InputError
from apportion.sim.inference.fleets import FleetSearch, FleetTries
from apportion.sim.inference.limits import ServingLimits
from apportion.sim.inference.served_replicas import asked_of, serve_replicas

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from apportion.sim.inference.served import ServingRun
    from apportion.sim.inference.served_model import ServedModel
    from apportion.types import Floats, Ints


@dataclass(frozen=True, repr=False, eq=False)
class CheapestGpus:
    """The cheapest GPUs for requests under an SLO, and how it is known.

    Parameters
    ----------
    gpus
        GPUs of each type that serve.
    price
        Of an hour of them: US dollars, or GPUs if no type has a price.
    unit
        ``"$/h"`` or ``"GPUs"``.
    alone
        What it takes with one type only: type, gpus, price; empty where no number of them does.
    slo
        What the run with `gpus` reaches of each limit.
    tried
        Every fleet that was simulated: GPUs of each type, price, and whether the SLO was met.
    run
        The simulation with `gpus`.
    """

    gpus: dict[str, int]
    price: float
    unit: str
    alone: pd.DataFrame
    slo: pd.DataFrame
    tried: pd.DataFrame
    run: ServingRun

    def __str__(self) -> str:
        """Return the answer as people say it."""
        told = [_told({self.unit: row.price}, {name: row.gpus}) for name, row in _rows(self.alone)]
        best = _told({self.unit: self.price}, self.gpus)
        return f"{best}; of one type: {' or '.join(told)}" if told else best

    def __repr__(self) -> str:
        return f"<CheapestGpus: {self}>"


def _rows(alone: pd.DataFrame) -> list[tuple[str, Any]]:
    return [(str(name), row) for name, row in alone.iterrows()]


def _told(price: Mapping[str, float], gpus: Mapping[str, int]) -> str:
    count = " + ".join(f"{int(n)} {name}" for name, n in gpus.items() if n)
    ((unit, value),) = price.items()
    return f"{count}: ${value:,.2f} an hour" if unit == "$/h" else count


def cheapest_gpus(
    requests: Any,
    model: ServedModel,
    slo: Mapping[str, float],
    available: Cluster | Mapping[str, int] | str,
) -> CheapestGpus:
    r"""Find the cheapest GPUs, of one type or several, that serve requests within an SLO.

    With n replicas of each type, c their price and S the fleets whose simulated run
    (`serve_replicas`) meets the SLO:

    .. math:: \min_n \sum_t c_t n_t,\quad n \in S,\ 0 \le n_t \le N_t,\ n_t \in \mathbb{Z}

    S is not known beforehand. The program has a valid inequality for it (the work of the requests
    must fit, `least_work`), and for each fleet m that has missed the SLO a cut: a fleet of the same
    types must have more than it did of one of them. With u what serves at all and U that of m,

    .. math:: n_t \ge (m_t + 1) z_t,\quad
        \sum_{t \in U} (z_t + 1 - u_t) + \sum_{t \notin U} u_t \ge 1,\quad u, z \in \{0, 1\}.

    Its cheapest fleet is simulated, and is the answer if the SLO is met. That fewer replicas of the
    same types are never better is taken for granted (a slow type may make others worse); the answer
    itself is a run.

    Parameters
    ----------
    requests, model
        As in `serve_replicas`.
    slo
        Most seconds of percentiles of ``delay``, ``ttft``, ``tpot`` and ``request``:
        ``{"p99_ttft_s": 2.0, "p95_tpot_s": 0.05}``; p % of the requests, counted, take no longer.
    available
        How many GPUs of each type there are at most, with their prices and sizes of machines; a
        `Cluster`, a mapping, or ``"a100=200,h100=64"``. Without any price a GPU costs 1.

    Returns
    -------
    CheapestGpus
        The GPUs, their price, what one type alone takes, and the run.

    Raises
    ------
    InputError
        For what `serve_replicas` refuses, an SLO that is none, a price that is not known beside one
        that is, and an SLO that is missed with all that are available.
    """
    cluster = Cluster.of(available)
    names = [name for name, count in cluster.gpus.items() if count]
    asked = asked_of(requests, model)
    ServingLimits(slo, model, asked)  # refuses what is none
    each = np.array([model.of_replica(name) for name in names])
    most = np.array([model.replicas(cluster, name) for name in names])
    price, unit = _prices(cluster, names)
    tries = FleetTries(model, names, asked, slo)
    search = FleetSearch(tries, most, price * each)
    counts = search.run()
    if counts is None:
        raise _missed(tries, most, cluster)
    run = serve_replicas(asked, model, _holding(cluster, names, counts, each))
    alone = pd.DataFrame(
        [
            (name, n * k, n * k * p)
            for name, n, k, p in zip(names, search.alone, each, price, strict=True)
            if n > 0
        ],
        columns=["type", "gpus", "price"],
    ).set_index("type")
    tried = pd.DataFrame(
        [(*(n * each), n @ (each * price), met) for n, met in tries.sorted()],
        columns=[*names, "price", "met"],
    )
    return CheapestGpus(
        dict(zip(names, (counts * each).tolist(), strict=True)),
        float(counts @ (each * price)),
        *(unit, alone, ServingLimits(slo, model, asked).reached(run.requests), tried, run),
    )


def _holding(cluster: Cluster, names: Sequence[str], counts: Ints, each: Ints) -> Cluster:
    """Return the GPUs of whole machines, but for the last of a type, that hold some replicas."""
    gpus = {}
    for name, count, size in zip(names, counts.tolist(), each.tolist(), strict=True):
        if count:
            machine = cluster.machine_size(name)
            full, rest = divmod(count, machine // size)
            gpus[name] = full * machine + rest * size
    return Cluster(gpus, {name: cluster.machine_size(name) for name in gpus})


def _prices(cluster: Cluster, names: Sequence[str]) -> tuple[Floats, str]:
    """Return prices by type, and their unit."""
    told = [cluster.prices_per_gpu_hour.get(name, math.nan) for name in names]
    missing = [name for name, price in zip(names, told, strict=True) if math.isnan(price)]
    if len(missing) == len(names):
        return np.ones(len(names)), "GPUs"
    if missing:
        raise InputError(
            f"The price of {missing[0]} is not known, and that of others is; give it, "
            f"Cluster(..., prices_per_gpu_hour={{{missing[0]!r}: 2.5}})."
        )
    return np.array(told), "$/h"


def _missed(tries: FleetTries, most: Ints, cluster: Cluster) -> InputError:
    words = "no replica fits"
    if most.any():
        limits = ServingLimits(tries.slo, tries.model, tries.asked)
        reached = limits.reached(serve_replicas(tries.asked, tries.model, cluster).requests)
        missed = reached[~reached["met"]]["reached_s"]
        words = ", ".join(f"{name} is {value:.4g} s" for name, value in missed.items())
    limits_told = ", ".join(f"{name}={value:g}" for name, value in tries.slo.items())
    return InputError(
        f"With all that are available, {cluster}, the SLO {limits_told} is missed: {words}. Give "
        f"more GPUs, or longer limits."
    )
