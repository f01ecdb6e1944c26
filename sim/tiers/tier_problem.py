"""Jobs over the tiers of types: what gangs lose there, and the problem of a policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy import sparse

from apportion.cluster import TIERS
from apportion.errors import InputError
from apportion.mechanism.scheduler import MACHINE, RACK
from apportion.policies import Instance
from apportion.policies.tiers import gang_limits
from apportion.sim.network import get_network
from apportion.sim.network.model import placings_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from apportion.cluster import Cluster
    from apportion.mechanism.decider import About
    from apportion.mechanism.devices import Held
    from apportion.mechanism.placements.by_speed import Placing
    from apportion.policies import Policy
    from apportion.sim.about import AboutRun
    from apportion.sim.workload import Workload
    from apportion.types import Floats, Ints


@dataclass(frozen=True, eq=False)
class Tiers:
    """What gangs lose by where they are, which policies know as who places them does.

    Option ``type * 3 + tier`` is a tier of an accelerator type.

    Attributes
    ----------
    slowdown
        Time of a step at each option over that on the type wherever gangs are, shape (jobs,
        options), as `tier_slowdowns`; infinite where a gang cannot lie.
    about
        Jobs and devices, with what slows gangs down there.
    split_ratio
        Speed of gangs in several machines relative to that in one, shape (jobs, types), if it
        counts.
    """

    slowdown: Floats
    about: About
    split_ratio: Floats | None = None

    @classmethod
    def in_leases(cls, workload: Workload, about: About) -> Tiers:
        """Return the tiers of whole racks."""
        return cls(tier_slowdowns(workload, about.devices.placings), about)

    @classmethod
    def in_rounds(
        cls, policy: Policy, asked: bool | None, run: AboutRun, about: About
    ) -> Tiers | None:
        """Return the tiers over which a policy is solved in rounds; None for shares of types.

        Parameters
        ----------
        policy
            The policy.
        asked
            With None whatever slows gangs down is seen, by policies that know types and do not
            share GPUs.
        run, about
            Jobs as they are, and what they run on.

        Raises
        ------
        InputError
            If tiers are asked for where nothing slows gangs down.
        """
        workload, ratio, placings = run.workload, run.truth.split_ratio, about.devices.placings
        if asked and not placings and ratio is None:
            raise InputError(
                "tiers=True does nothing where gangs are as fast everywhere; give network=, or "
                "placement_sensitive=True, or leave it out."
            )
        blind = policy.space_sharing or not policy.heterogeneity_aware
        told = None if ratio is None else workload.unconsolidated
        if asked is False or (asked is None and blind) or (not placings and told is None):
            return None
        alike = placings_of(about.cluster, get_network("none", cluster=about.cluster))
        free = tier_slowdowns(workload, alike)
        slowdown = tier_slowdowns(workload, placings) if placings else free.copy()
        if told is not None and ratio is not None:
            by_type = slowdown.reshape(*ratio.shape, len(TIERS))
            keys = pd.MultiIndex.from_frame(workload.jobs[["job_type", "scale_factor"]])
            told = told.reindex(index=keys, columns=list(about.cluster.accelerators))
            # Whose speed in several machines is told to be 0 can only lie in one.
            never = np.isfinite(by_type[:, :, MACHINE]) & (told.to_numpy(dtype=float) == 0)
            by_type[:, :, RACK:] /= ratio[:, :, None]
            by_type[:, :, RACK:][never] = np.inf
        return None if np.array_equal(slowdown, free) else cls(slowdown, about, ratio)

    def slowdown_at(self, job: int, held: Held) -> float:
        """Return the slowdown of a job, by its number, on devices that it has."""
        about, kind = self.about, held[0]
        where, placings = about.layout.placement(held), about.devices.placings
        slow = placings[kind].worth(about.jobs.job_type[job], where)[0] if placings else 1.0
        if self.split_ratio is None or len(where) == 1:
            return slow
        return slow / float(self.split_ratio[job, kind])


def tier_problem(
    speed: Floats,
    scale: Ints,
    cluster: Cluster,
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
    texts
        What columns of texts say, by column.
    """
    kind, tier = np.divmod(np.arange(speed.shape[1]), len(TIERS))
    lies = np.where(speed > 0, scale[:, None], 0)
    limits: list[Floats] = []
    room: list[float] = []
    for own, inside in np.ndindex(len(cluster.accelerators), 2):
        accelerator = cluster.accelerators[own]
        of_place = (cluster.machine_size(accelerator), cluster.rack_size(accelerator))[inside]
        if of_place is not None:
            found, _ = gang_limits(np.where((kind == own) & (tier <= inside), lies, 0), of_place)
            limits += found
            room += [float(cluster.counts[own]) / of_place] * len(found)
    usage = np.stack(limits, axis=2).reshape(scale.size, -1) if limits else None
    return Instance.of_options(
        *(speed, scale[:, None], cluster.counts),
        option_accelerator=kind,
        columns={"scale_factor": scale},
        usage=None if usage is None else sparse.csr_array(usage),
        resource_capacity=room,
        prices=np.append(cluster.prices, np.zeros(len(room))),
        resource_names=(
            *cluster.accelerators,
            *(f"gangs by place, limit {place}" for place in range(len(room))),
        ),
        texts=texts,
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
