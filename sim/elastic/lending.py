"""What idle GPUs that serve requests would be worth to training, interval by interval of a day."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.checks import seconds, whole
from apportion.cluster import Cluster
from apportion.errors import InputError
from apportion.mechanism.devices import Devices
from apportion.policies import Instance, get_policy, solve_instance
from apportion.policies.problem import Problem
from apportion.policies.whole.values import fair_throughput
from apportion.sim.elastic.rigid import WithRigid, options_for, rigid_jobs
from apportion.sim.elastic.speeds import TrueProgress
from apportion.sim.elastic.told_goodputs import Profiles
from apportion.sim.engine import TrueState
from apportion.sim.inference.requests import offered_load
from apportion.sim.simulation import simulate
from apportion.sim.workload_tables import by_arrival_and_id

if TYPE_CHECKING:
    from apportion.sim.elastic_workload import ElasticWorkload
    from apportion.sim.inference.served import ServingRun
    from apportion.sim.run import Run
    from apportion.types import Floats


LENDING_COLUMNS = {
    "from_s": "start of the interval, seconds",
    "erlangs": "offered load of the requests; of those served in batches, GPUs that run on average",
    "idle_gpus": "mean number of GPUs that are free or warm, and so may be lent",
    "jobs": "jobs that train at its start",
    "price": "what one more GPU would improve the sum of speed-ups by: dual of the relaxation",
    "gpus": "idle GPUs in whole numbers, rounded down",
    "gain": "what they would improve the sum of speed-ups by, decided in whole numbers",
    "last_price": "price of one more GPU once they are lent",
    "job_hours": "gain times the length: hours of training at a fair share",
}
"""Columns of the table of `lending_value`."""

_GAP = 1e-9
"""Relative: differences of two optima are told, which have fewer digits than these."""
_SECONDS_PER_HOUR = 3600.0


def lending_value(
    run: ServingRun,
    workload: ElasticWorkload,
    gpus: int | Mapping[str, int] | str,
    *,
    interval_s: float = 3600.0,
    gpus_per_node: int = 4,
) -> pd.DataFrame:
    """Tell what the idle GPUs of a serving cluster would be worth to elastic training beside it.

    Training runs under `deepboot` on GPUs of its own. At the start of each interval its problem,
    the largest sum of speed-ups over a fair share of those GPUs, is solved as if jobs could be
    moved for nothing: on the GPUs that training has, and with the idle ones added. The unit stays
    the speed at a fair share of the GPUs that training has.

    Parameters
    ----------
    run
        Of `serve`.
    workload
        Elastic jobs; their times are those of the requests.
    gpus
        GPUs that training has, a number, or of which type: ``"a100=8"``. Those that are lent are
        taken to be of this type too.
    interval_s
        Length of an interval, seconds.
    gpus_per_node
        GPUs of a node.

    Returns
    -------
    DataFrame
        A row for each interval until the last request has ended, columns `LENDING_COLUMNS`.

    Raises
    ------
    InputError
        For fewer than one GPU, several types, an interval that is not > 0, and what `simulate`
        refuses; and for a number alone where the speeds of jobs are told by several types.
    """
    kind, own = _type_and_number(gpus, workload)
    length_s = seconds("interval_s", interval_s, strict=True)
    starts = np.arange(0.0, run.length_s, length_s)
    edges_s = np.append(starts, starts[-1] + length_s)
    if "duration_s" in run.asked and "replica" not in run.requests:
        load = offered_load(run.asked, length_s).to_numpy()
    else:  # served in batches: how long one takes alone says little
        load = _mean_in(run, edges_s, ["running"])
    idle = _mean_in(run, edges_s, ["free", "warm"])
    trained = simulate("deepboot", workload, _cluster(kind, own, gpus_per_node))
    asked = _Asked(workload, trained, own, _cluster(kind, own + run.gpus, gpus_per_node))
    load = np.append(load, np.zeros(max(starts.size - load.size, 0)))
    rows = [
        {
            "from_s": start_s,
            "erlangs": float(erlangs),
            "idle_gpus": float(mean),
            # A mean of whole numbers may miss one by its last digit.
            **asked.worth(float(start_s), int(mean * (1 + 1e-12))),
        }
        for start_s, mean, erlangs in zip(starts, idle, load, strict=False)
    ]
    table = pd.DataFrame(rows)
    valid_for_s = np.minimum(length_s, run.length_s - starts)
    table["job_hours"] = table["gain"] * valid_for_s / _SECONDS_PER_HOUR
    return table[list(LENDING_COLUMNS)]


def _type_and_number(
    gpus: int | Mapping[str, int] | str, workload: ElasticWorkload
) -> tuple[str, int]:
    """Return the type of the GPUs that train, and how many there are."""
    if isinstance(gpus, (str, Mapping)):
        told = Cluster.of(gpus).gpus
        if len(told) != 1:
            raise InputError(f"GPUs are lent as of one type; training has {', '.join(told)}.")
        return next(iter(told.items()))
    number = whole("gpus", gpus, 1)
    kinds = sorted({name for each in workload.applications.values() for name in each.told_types})
    if len(kinds) > 1:
        raise InputError(
            f"The speeds of the elastic jobs are told by type; say of which the GPUs that train "
            f"are, such as '{kinds[0]}={number}'. Told: {', '.join(kinds)}."
        )
    return (kinds[0] if kinds else "gpu"), number


def _cluster(kind: str, gpus: int, per_node: int) -> Cluster:
    return Cluster({kind: gpus}, gpus_per_machine=whole("gpus_per_node", per_node, 1))


def _mean_in(run: ServingRun, edges_s: Floats, names: list[str]) -> Floats:
    """Mean number of GPUs in some states, between edges of time."""
    states = run.gpu_states
    lendable = states[states["state"].isin(names)]
    begin, end = (lendable[name].to_numpy()[:, None] for name in ("from_s", "to_s"))
    inside = np.minimum(end, edges_s[1:]) - np.maximum(begin, edges_s[:-1])
    spent_s = np.maximum(inside, 0.0).sum(axis=0)
    last_s = np.minimum(edges_s[1:], run.length_s)
    return np.asarray(spent_s / (last_s - edges_s[:-1]), dtype=np.float64)


class _Asked:
    """Poses the problem of training with any number of GPUs, at any time of its run."""

    def __init__(self, workload: ElasticWorkload, trained: Run, own: int, cluster: Cluster) -> None:
        ordered = by_arrival_and_id(workload.in_steps(cluster))
        self._truth = TrueState(ordered, cluster)
        rigid = rigid_jobs(get_policy("deepboot"), workload, ordered.jobs.index)
        pools = Devices.of(cluster).pools
        self._options, shared = options_for(pools, "every", rigid)
        names = workload.jobs["application"].loc[ordered.jobs.index]
        applications = [workload.applications[name] for name in names]
        profiles = Profiles(applications, cluster.accelerators, lambda _: 1.0)
        self._trainers = WithRigid(
            *(self._truth.told, profiles, TrueProgress(), self._options), rigid=rigid, shared=shared
        )
        jobs = trained.jobs.loc[ordered.jobs.index]
        self._arrival_s, self._end_s = (jobs[n].to_numpy() for n in ("arrival_s", "completion_s"))
        self._stays = trained.schedule
        self._place = pd.Series(np.arange(len(ordered.jobs)), index=ordered.jobs.index)
        self._total_steps = self._truth.remaining.copy()
        self._own = own

    def worth(self, now_s: float, more: int) -> dict[str, Any]:
        """Return what some more GPUs are worth now; see `LENDING_COLUMNS`."""
        active = np.flatnonzero((self._arrival_s <= now_s) & (now_s < self._end_s))
        found: dict[str, Any] = {"jobs": active.size, "gpus": more}
        if not active.size:
            return found | dict.fromkeys(("price", "gain", "last_price"), 0.0)
        self._truth.remaining[:] = self._total_steps * (1.0 - self._done(now_s))
        speed = self._trainers.goodputs(active.tolist())
        fair = fair_throughput(Problem(self._instance(speed, self._own, {})))
        fair = np.where(fair > 0, fair, speed.max(axis=1))
        before, after = (
            solve_instance(
                get_policy("deepboot"),
                self._instance(speed, gpus, {"fair_throughput": fair}),
                group=False,
                gap=_GAP,
            )
            for gpus in (self._own, self._own + more)
        )
        return found | {
            "price": float(before.prices[0]),
            "gain": after.objective - before.objective,
            "last_price": float(after.prices[0]),
        }

    def _instance(self, speed: Floats, gpus: int, columns: dict[str, Any]) -> Instance:
        """Pose the problem on so many GPUs; what does not fit yet counts for the relaxation."""
        return Instance.of_options(
            speed, self._options.gpus, np.array([float(gpus)]), columns=columns
        )

    def _done(self, now_s: float) -> Floats:
        """Part of each job that is done, by the GPU-seconds that it has held."""
        stays = self._stays
        size = stays["devices"].map(len).to_numpy(dtype=float)
        start_s, end_s = stays["start_s"].to_numpy(), stays["end_s"].to_numpy()
        place = self._place.loc[stays["job"]].to_numpy()
        jobs = self._place.size
        total = np.bincount(place, weights=size * (end_s - start_s), minlength=jobs)
        held = size * np.clip(now_s - start_s, 0.0, end_s - start_s)
        part = np.bincount(place, weights=held, minlength=jobs)
        done = np.divide(part, total, out=np.zeros(jobs), where=total > 0)
        # Who is still there is not done.
        return np.asarray(np.minimum(done, 1 - 1e-9), dtype=np.float64)
