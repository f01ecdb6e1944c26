"""Jobs over the tiers of types: their speeds, and the problem of a policy there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy import sparse

from apportion.cluster import TIERS
from apportion.mechanism.scheduler import MACHINE, RACK
from apportion.policies import Instance
from apportion.policies.tiers import gang_limits
from apportion.sim.network import get_network
from apportion.sim.network.model import placings_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from apportion.cluster import Cluster
    from apportion.mechanism.devices import Held
    from apportion.mechanism.job_table import JobTable
    from apportion.mechanism.placements.by_speed import Placing
    from apportion.mechanism.scheduler import GangProgress
    from apportion.sim.beliefs import Believed
    from apportion.sim.network import NetworkModel
    from apportion.sim.workload import Workload
    from apportion.types import Floats, Ints


class TierOptions:
    """What jobs are believed to make at each tier of each type, and a policy's problem over these.

    Option ``type * 3 + tier`` is a tier of a type. What gangs lose by where they are is known to
    policies, as to who places them; of a speed at a tier only that of the type is believed and
    learnt: what has run at any tier says how fast the job computes on the type, and with it how
    fast it is at the others.

    Parameters
    ----------
    told
        What is known of the jobs.
    believed
        What is believed of their speeds on the types, wherever gangs are.
    slowdown
        Time of a step at each option over that, shape (jobs, options), see `tier_slowdowns`.
    slowdown_at
        The same of a job, by its number, on devices that it has.
    cluster
        Where they run.

    Attributes
    ----------
    table
        What is known of the jobs, by option.
    """

    def __init__(
        self,
        told: JobTable,
        believed: Believed,
        slowdown: Floats,
        slowdown_at: Callable[[int, Held], float],
        cluster: Cluster,
    ) -> None:
        self.told, self.believed, self.cluster = told, believed, cluster
        self._slowdown, self._slowdown_at = slowdown, slowdown_at
        gpus = np.repeat(cluster.counts.astype(float), len(TIERS))
        speed = at_tiers(believed.speed, slowdown)
        self.table = replace(told, speed=speed, capacity=gpus, prices=np.zeros(gpus.size))
        self._posed: tuple[Ints, Instance] | None = None  # of which jobs, without their columns

    def believe(self, jobs: Ints) -> None:
        """Take over what is believed of jobs."""
        self._posed = None
        self.table.speed[jobs] = at_tiers(self.believed.speed[jobs], self._slowdown[jobs])

    def by_itself(self, ran: GangProgress) -> GangProgress:
        """Return what ran at the speeds that its gangs have on the types, wherever they are."""
        gangs = ran.gangs
        each = zip(gangs.job.tolist(), gangs.devices, strict=True)
        slowdown = [self._slowdown_at(job, held) for job, held in each]
        return ran._replace(rate=ran.rate * np.array(slowdown))

    def pose(self, jobs: Ints, columns: Mapping[str, Floats]) -> Instance:
        """Pose the problem of some jobs over the tiers of the types.

        Of the same jobs as the last time only the columns are others.
        """
        table, known = self.table, dict(columns)
        if "running_on" in known:  # an option, of a type; -1 for none
            known["running_on"] = known["running_on"] // len(TIERS)
        if self._posed is None or not np.array_equal(self._posed[0], jobs):
            speed, scale = table.speed[jobs], table.scale[jobs]
            self._posed = jobs, tier_problem(speed, scale, self.cluster, {}, table.texts)
        posed = self._posed[1]
        return posed.with_columns({**posed.columns, **known})


def tier_problem(
    speed: Floats,
    scale: Ints,
    cluster: Cluster,
    columns: Mapping[str, Floats],
    texts: Mapping[str, tuple[str, ...]] | None = None,
) -> Instance:
    """Pose the problem of jobs whose options are the tiers of accelerator types.

    Option ``type * 3 + tier`` is a tier of a type. A gang holds its GPUs, and its part of every
    limit on gangs that lie in machines and in racks
    (`apportion.policies.tiers.pack_gangs`).

    Parameters
    ----------
    speed
        Steps/s of each job at each option, 0 where its gang cannot lie, shape (jobs, options).
    scale
        GPUs of each gang, shape (jobs,).
    cluster
        Whole racks, each of one type.
    columns
        Columns of the jobs table, each of shape (jobs,).
    texts
        What columns of texts say, by column, if ``columns`` has the places of it.
    """
    gpus, types = scale.astype(float), len(cluster.accelerators)
    kind, tier = np.divmod(np.arange(speed.shape[1]), len(TIERS))
    held = [gpus[:, None] * (kind == own) for own in range(types)]
    capacity = [float(count) for count in cluster.counts]
    lies = np.where(speed > 0, scale[:, None], 0)
    for own, inside in np.ndindex(types, 2):
        accelerator = cluster.accelerators[own]
        of_place = (cluster.machine_size(accelerator), cluster.rack_size(accelerator))[inside]
        if of_place is not None:
            here = (kind == own) & (tier <= inside)
            limits, _ = gang_limits(np.where(here, lies, 0), of_place)
            held += limits
            capacity += [capacity[own] / of_place] * len(limits)
    usage = np.stack(held, axis=2).reshape(scale.size, -1)
    always = {"weight": np.ones(scale.size), "count": np.ones(scale.size), "scale_factor": gpus}
    return Instance(
        throughput=speed,
        member_row=np.arange(scale.size),
        member_job=np.arange(scale.size),
        own_usage=sparse.csr_array(usage),
        capacity=np.array(capacity),
        option_accelerator=kind,
        columns=always | dict(columns),
        prices=np.append(cluster.prices, np.zeros(len(capacity) - types)),
        types=types,
        resource_names=(
            *cluster.accelerators,
            *(f"gangs by place, limit {place}" for place in range(len(capacity) - types)),
        ),
        texts=texts or {},
    )


def at_tiers(alone: Floats, slowdown: Floats) -> Floats:
    """Steps/s at each option, of jobs that make `alone` on each type without communication.

    Option ``type * 3 + tier`` is a tier of an accelerator type.

    Parameters
    ----------
    alone
        Shape (jobs, types).
    slowdown
        As `tier_slowdowns` returns it, shape (jobs, options).
    """
    speeds = alone[:, :, None] / slowdown.reshape(*alone.shape, len(TIERS))
    return np.asarray(speeds.reshape(slowdown.shape), dtype=np.float64)


def tier_slowdowns(workload: Workload, placings: Sequence[Placing]) -> Floats:
    """Time of a step of every job at each option over its compute time, shape (jobs, options).

    On the fastest placement of a type at the tier; infinite where the gang can have none.

    Raises
    ------
    InputError
        If the network model does not know a job type.
    """
    jobs = workload.jobs
    gangs = list(zip(jobs["job_type"].tolist(), jobs["scale_factor"].tolist(), strict=True))
    known = {gang: [each.slowdowns(*gang) for each in placings] for gang in dict.fromkeys(gangs)}
    return np.array([known[gang] for gang in gangs]).reshape(len(gangs), -1)


def seen_slowdowns(
    workload: Workload,
    cluster: Cluster,
    network: NetworkModel | None,
    split_ratio: Floats | None,
) -> Floats | None:
    """Time of a step at each option over that on the type, or None if it is the same everywhere.

    Parameters
    ----------
    workload, cluster
        Jobs, and where they run.
    network
        A network model that slows gangs down, if one counts.
    split_ratio
        Speed of gangs in several machines relative to that in one, shape (jobs, types), if it is
        to count. A gang that runs in a machine and whose speed in several is told to be 0 can
        only lie in one.

    Returns
    -------
    ndarray or None
        Shape (jobs, options), as `tier_slowdowns`; infinite where a gang cannot lie.
    """
    if network is None and (split_ratio is None or workload.unconsolidated is None):
        return None
    alike = placings_of(cluster, get_network("none", cluster=cluster))
    free = tier_slowdowns(workload, alike)
    slowdown = free.copy()
    if network is not None:
        slowdown = tier_slowdowns(workload, placings_of(cluster, network))
    if split_ratio is not None and workload.unconsolidated is not None:
        by_type = slowdown.reshape(*split_ratio.shape, len(TIERS))
        keys = pd.MultiIndex.from_frame(workload.jobs[["job_type", "scale_factor"]])
        told = workload.unconsolidated.reindex(index=keys, columns=list(cluster.accelerators))
        never = np.isfinite(by_type[:, :, MACHINE]) & (told.to_numpy(dtype=float) == 0)
        by_type[:, :, RACK:] /= split_ratio[:, :, None]
        by_type[:, :, RACK:][never] = np.inf
    return None if np.array_equal(slowdown, free) else slowdown
