"""Small workloads on which parts are checked, each with a cluster; the same for the same seed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from apportion.cluster import Cluster
from apportion.errors import InputError, unknown_name, written
from apportion.sim.contention.workload import generate_contended_workload
from apportion.sim.drawn.generate import generate_workload
from apportion.sim.drawn.rack_workloads import generate_rack_workload
from apportion.sim.elastic.generate import generate_elastic_workload
from apportion.sim.given_order import present_types
from apportion.sim.phases.workload import generate_communicating_workload

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

    from apportion.sim.elastic_workload import ElasticWorkload
    from apportion.sim.workload import Workload


Jobs = Literal["many", "one", "few"]
On = tuple["Workload | ElasticWorkload", "Cluster | Mapping[str, int] | str"]
"""A workload and its cluster, as `apportion.simulate` takes them."""


class Drawn(NamedTuple):
    """A workload and its cluster, and how to get them again, as code."""

    workload: Workload | ElasticWorkload
    cluster: Cluster
    text: str

    @classmethod
    def of(cls, on: On | None, kind: str, **how: Any) -> Drawn:
        """Return what was given, or what `drawn` draws."""
        if on is not None:
            return cls(*workload_and_cluster(on), "workload, cluster")
        given = "".join(f", {name}={value!r}" for name, value in how.items())
        workload, cluster = drawn(kind, **how)
        return cls(workload, cluster, f"*apportion.testing.drawn({kind!r}{given})")


def workload_and_cluster(on: On) -> tuple[Workload | ElasticWorkload, Cluster]:
    """Return a workload and a cluster, or refuse what is neither."""
    both: Any = on if isinstance(on, (tuple, list)) else ()
    if len(both) != 2 or not hasattr(both[0], "jobs"):
        raise InputError(f"on is {written(on)}; it must be (workload, cluster).")
    return both[0], Cluster.of(both[1])


def drawn(
    kind: str, seed: int = 0, *, gangs: bool = True, jobs: Jobs = "many"
) -> tuple[Workload | ElasticWorkload, Cluster]:
    """Return the workload of a check, and the cluster that it runs on.

    Some jobs come twice at once, equal in everything.

    Parameters
    ----------
    kind
        ``"types"``: jobs of a few rounds on three types. ``"racks"``: jobs of some leases on racks
        of one type. ``"sending"``: iterations that share GPUs and links. ``"links"``: gangs with
        communication profiles. ``"elastic"``: jobs of any number of GPUs.
    seed
        Of what is drawn.
    gangs
        Whether there are jobs with several GPUs, on types and racks.
    jobs
        ``"one"``: the first alone. ``"few"``: up to four that fit one machine, on this machine.

    Raises
    ------
    InputError
        For another kind.
    """
    kinds: dict[str, Any] = {
        "types": _on_types,
        "racks": _on_racks,
        "sending": _sending,
        "links": _on_links,
        "elastic": _elastic,
    }
    if kind not in kinds:
        raise unknown_name("kind of workload", kind, kinds)
    workload, cluster = kinds[kind](seed, gangs)
    table = _with_twins(workload.jobs)
    if jobs == "one":
        table = table.iloc[:1]
    elif jobs == "few":
        per_machine, kind = cluster.largest_machine, cluster.accelerators[0]
        table = table[table["gpus" if workload.elastic else "scale_factor"] <= per_machine].iloc[:4]
        racks = None if cluster.machines_per_rack is None else 1
        gpus = {name: per_machine * (name == kind) for name in cluster.gpus}
        cluster = present_types(replace(cluster, gpus=gpus, machines_per_rack=racks))
    return replace(workload, jobs=table), cluster


def _on_types(seed: int, gangs: bool) -> tuple[Workload, Cluster]:
    """Draw jobs of a few rounds each."""
    made = generate_workload(
        jobs=14,
        seed=seed,
        jobs_per_hour=40,
        scale_factors={1: 0.6, 2: 0.3, 4: 0.1} if gangs else "single",
        weights="gavel",
        deadlines={50.0: 1.0},
    )
    jobs = made.jobs.assign(
        total_steps=made.jobs["total_steps"] * 0.03,
        entity=np.where(np.arange(len(made)) % 3 == 0, "red", "blue"),
    )
    cluster = Cluster({"v100": 4, "p100": 4, "k80": 8}, gpus_per_machine=4)
    return replace(made, jobs=jobs), cluster


def _on_racks(seed: int, gangs: bool) -> tuple[Workload, Cluster]:
    """Draw jobs of some leases each."""
    made = generate_rack_workload(jobs=24, seed=seed, max_scale_factor=16 if gangs else 1)
    rng = np.random.default_rng(seed)
    jobs = made.jobs.assign(
        total_steps=made.jobs["total_steps"] * 0.3,
        arrival_s=np.sort(rng.integers(0, 40, len(made)) * 600.0),
    )
    return replace(made, jobs=jobs), Cluster.of_racks(2, machines_per_rack=2, gpus_per_machine=4)


def _sending(seed: int, gangs: bool) -> tuple[Workload, Cluster]:
    """Draw jobs of few iterations that fill the GPUs and meet on the links."""
    made = generate_contended_workload(seed=seed, scale=0.01)
    jobs = made.jobs.iloc[:12]
    most = 8 if gangs else 1
    return (
        replace(made, jobs=jobs.assign(scale_factor=np.minimum(jobs["scale_factor"], most))),
        Cluster({"v100": 8}, gpus_per_machine=2),
    )


def _on_links(seed: int, gangs: bool) -> tuple[Workload, Cluster]:
    """Draw gangs of which several share the links of twelve servers."""
    made = generate_communicating_workload(6, seed=seed, jobs_per_hour=30)
    jobs = made.jobs.assign(total_steps=made.jobs["total_steps"] * 0.1)
    return replace(made, jobs=jobs), Cluster({"a100": 12}, gpus_per_machine=2)


def _elastic(seed: int, gangs: bool) -> tuple[ElasticWorkload, Cluster]:
    """Draw elastic jobs that want more GPUs than there are."""
    made = generate_elastic_workload(6, hours=1.0, seed=seed)
    return made, Cluster({"t4": 8}, gpus_per_machine=4)


def _with_twins(jobs: pd.DataFrame) -> pd.DataFrame:
    """Repeat every third job, right behind it, and give all new names."""
    copies = np.where(np.arange(len(jobs)) % 3 == 0, 2, 1)
    repeated = jobs.loc[jobs.index.repeat(copies)]
    return repeated.set_axis([f"job-{k}" for k in range(len(repeated))])
