"""What a job has when it is alone in the cluster: the fastest GPUs, in the best shape, at once."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.cluster import Cluster
from apportion.mechanism.leases import OfferScheduler
from apportion.pairs import PairThroughputs
from apportion.sim import Workload, simulate
from apportion.sim.deciders import manner_of
from apportion.sim.network import BY_SHAPE, canonical_shape, get_network
from apportion.sim.settings import STARTS
from apportion.testing.stays import Stays
from apportion.testing.steps_in_rounds import shape_of_stay

if TYPE_CHECKING:
    from apportion.sim.deciders import AnyDecider
    from apportion.sim.network import NetworkModel

_ACCURATE = 1e-6
"""A network of one's own may divide the other way round; what is wrong is wrong by more."""
_MODELS = ("MobileNetV3", "VGG11")  # one that hardly communicates between racks, one that does
_RACKS = (  # 16 GPUs each
    Cluster.of_racks(1, machines_per_rack=4, gpus_per_machine=4),
    Cluster.of_racks(2, machines_per_rack=2, gpus_per_machine=4),
)


def best_overhead(gpus: int, job_type: str, cluster: Cluster, network: NetworkModel) -> float:
    """Return the least overhead of a gang over all the shapes that an empty cluster has for it."""
    racks = [machines.tolist() for machines in cluster.racks(cluster.accelerators[0])]
    sizes = [size for rack in racks for size in rack]
    shapes = set()
    for counts in product(*(range(size + 1) for size in sizes)):
        if sum(counts) == gpus:
            left = iter(counts)
            shapes.add(canonical_shape([[next(left) for _ in rack] for rack in racks]))
    return min(network.overhead(job_type, shape) for shape in shapes)


def check_lone_jobs(decider: AnyDecider, *, gangs: bool) -> None:
    """Check that a job alone in the cluster has a finish-time fairness of 1, sizes one by one.

    Starts cost what the decider itself says, if anything.
    """
    starts = {STARTS: _terms(decider).overhead_s}
    if not works_on_racks(decider):
        for gpus in (1, 3, 8) if gangs else (1,):
            job = _workload([("m", gpus, 0.0, 5000.0)], accelerator="v100")
            _check_fairness(decider, job, Cluster({"v100": 8}, gpus_per_machine=4), starts, 5000.0)
        return
    alone_s = 5 * _terms(decider).lease_s
    for model, gpus in product(_MODELS, (1, 2, 5, 8, 12, 16) if gangs else (1,)):
        job = _workload([(model, gpus, 0.0, alone_s)])
        for cluster, name in product(_RACKS, BY_SHAPE):
            network = get_network(name, cluster=cluster)
            least_s = (1 + best_overhead(gpus, model, cluster, network)) * alone_s
            settings = {"network": name, "checkpoint_seconds_per_gpu": 0.0, **starts}
            _check_fairness(decider, job, cluster, settings, least_s)


def works_on_racks(decider: AnyDecider) -> bool:
    """Tell whether GPUs in racks are offered under leases wherever a decider decides."""
    return manner_of(decider).works_by[0] == "leases"


def _terms(decider: AnyDecider) -> OfferScheduler:
    """Return the terms of leases that a decider has where nothing is said of them."""
    terms = getattr(decider, "terms", None)
    return OfferScheduler(decider.label) if terms is None else terms


def check_lone_gangs(decider: AnyDecider) -> None:
    """Check that a gang that is left alone has the best shape there is within one lease.

    Smaller gangs fill parts of all machines when it comes, and end one after the other.
    """
    name, terms = "table1", _terms(decider)
    for cluster, model, gpus in product(_RACKS, _MODELS, (3, 6, 8)):
        network, per_machine = get_network(name, cluster=cluster), cluster.largest_machine
        lease_s = terms.lease_s
        machines = cluster.total_gpus // per_machine
        others = [("VGG11", per_machine // 2 + 1, 0.0, lease_s * 0.7)] * machines
        work = _workload([*others, (model, gpus, 1.0, 40 * lease_s)])
        costs: Any = {STARTS: terms.overhead_s}
        run = simulate(decider, work, cluster, network=name, **costs)
        stays = Stays.of(run, work, cluster)
        gang = len(work) - 1
        alone_s = float(run.jobs["completion_s"].iloc[:gang].max())
        (pause_s,) = terms.checkpoints_s([model], [gpus])
        best = best_overhead(gpus, model, cluster, network)
        for stay in np.flatnonzero(stays.job == gang).tolist():
            if stays.end_s[stay] <= alone_s + lease_s + pause_s:
                continue
            shape = shape_of_stay(stays, stay)
            if network.overhead(model, shape) > best + _ACCURATE:
                raise AssertionError(
                    f"{decider!r} leaves a gang of {gpus} ({model}) in the shape {shape} until "
                    f"{stays.end_s[stay]:.10g} s, alone in {cluster} since {alone_s:.10g} s: its "
                    f"overhead is {network.overhead(model, shape):.4g}, the least is {best:.4g}."
                )


def _check_fairness(
    decider: AnyDecider, job: Workload, cluster: Cluster, settings: dict[str, Any], least_s: float
) -> None:
    alone = simulate(decider, job, cluster, **settings).jobs.iloc[0]
    for name, expected in (("jct_s", least_s), ("ftf", 1.0)):
        if not abs(alone[name] / expected - 1) <= _ACCURATE:
            raise AssertionError(
                f"{decider!r} gives a job of {alone['scale_factor']} GPUs "
                f"({alone['job_type']}), alone in {cluster} with {settings}, a {name} of "
                f"{alone[name]:.10g} instead of {expected:.10g}."
            )


def _workload(jobs: list[tuple[str, int, float, float]], accelerator: str = "gpu") -> Workload:
    """Make jobs of (job type, GPUs, arrival, seconds of work) that make a step a second.

    None of them can share devices.
    """
    columns = ["job_type", "scale_factor", "arrival_s", "total_steps"]
    table = pd.DataFrame(jobs, columns=columns).assign(entity="all", deadline_s=np.nan)
    keys = pd.MultiIndex.from_frame(table[["job_type", "scale_factor"]].drop_duplicates())
    throughputs = pd.DataFrame({accelerator: 1.0}, index=keys)
    apart = np.zeros((len(keys), len(keys), 1))
    pairs = PairThroughputs(apart, throughputs.to_numpy(), keys, accelerators=(accelerator,))
    return Workload("alone", table, throughputs, pairs=pairs)
