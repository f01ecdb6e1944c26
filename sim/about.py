"""What a run is about, made once, and the parts that a mechanism makes of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from apportion.errors import InputError, written
from apportion.mechanism.decider import About
from apportion.mechanism.job_table import read_only
from apportion.mechanism.placement import Placer
from apportion.mechanism.placements import PLACEMENTS
from apportion.mechanisms.settings import SecondsByType, check_types_named, seconds_by_type
from apportion.sim.beliefs.estimated import chosen_beliefs
from apportion.sim.engine import Fluid, TableSpeeds, TrueState
from apportion.sim.network import get_network, on_topology
from apportion.sim.network.model import check_models, least_slowdowns, network_beside, pace_of
from apportion.sim.network.own_speeds import speeds_on
from apportion.sim.resolve import Resolver
from apportion.sim.workload_tables import by_arrival_and_id, named_types, present_types

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from apportion.cluster import Cluster
    from apportion.mechanism.job_table import JobTable
    from apportion.mechanism.scheduler import Scheduler
    from apportion.policies import Policy
    from apportion.sim.beliefs import Beliefs, Believed
    from apportion.sim.elastic_workload import ElasticWorkload
    from apportion.sim.engine import Runtime, Speeds
    from apportion.sim.network import MemoizedNetwork
    from apportion.sim.record import Columns
    from apportion.sim.solves.own_constraints import Kept
    from apportion.sim.tiers.tier_problem import Tiers
    from apportion.sim.workload import Workload


class Counts(Protocol):
    """Whoever was asked in a run, and counts it."""

    def figures(self) -> dict[str, Any]:
        """Return ``policy_seconds``, ``solves``, perhaps ``uncertified``, as a `Run` has them."""
        ...


class Parts(NamedTuple):
    """What a mechanism makes of a run.

    Attributes
    ----------
    scheduler
        Decides who has which devices, and when it is asked again.
    runtime
        Lets gangs work; `AboutRun.fluid` at the speeds of the workload, on its network.
    asked
        Counts how often a policy was asked; by default the scheduler, if it has ``figures()``.
    columns
        What the run tells beside what every run tells.
    """

    scheduler: Scheduler
    runtime: Runtime
    asked: Counts | None = None
    columns: Sequence[Columns] = ()

    def figures(self) -> dict[str, Any]:
        """Return how often a policy was asked, as a `Run` calls it."""
        figures = getattr(self.asked or self.scheduler, "figures", None)
        return {"policy_seconds": 0.0, "solves": 0} if figures is None else dict(figures())


@dataclass(eq=False)
class AboutRun:
    """Jobs as they are, the cluster, and what is known of both, for a mechanism to make parts of.

    Attributes
    ----------
    given, cluster
        Jobs and cluster as they were given.
    workload, present
        The same in the order of the run: jobs by arrival and id, elastic ones by their progress;
        types by name, those without GPUs left out.
    truth
        Of the jobs; who decides knows `jobs` only.
    network
        Slows gangs down by where they are; ``None`` for none.
    settings
        Of the run, by name, as it will tell them.
    beliefs
        What policies are told of speeds, if it is not among the settings.
    tick_s
        All happens at multiples of it, seconds; 0 for any time.
    told
        What schedulers and networks are told, once somebody may have devices (`place`).
    """

    given: Workload | ElasticWorkload
    cluster: Cluster
    workload: Workload
    present: Cluster
    truth: TrueState
    network: MemoizedNetwork | None
    settings: dict[str, Any]
    beliefs: Beliefs | None = None
    tick_s: float = 0.0
    told: About | None = field(default=None, init=False)
    _asked: bool = field(default=False, init=False)

    @classmethod
    def of(
        cls,
        workload: Workload | ElasticWorkload,
        cluster: Cluster,
        mechanism: Any,
        settings: Mapping[str, Any],
        beliefs: Beliefs | None = None,
    ) -> AboutRun:
        """Put together what a run is about.

        Parameters
        ----------
        workload, cluster
            Jobs, and where they run.
        mechanism
            By which, as `apportion.sim.settings.settings_for` returns it; its ``network``,
            ``topology`` and ``placement_sensitive`` are heeded, if it has them.
        settings
            As `apportion.sim.settings.settings_for` returns them.
        beliefs
            What is told of speeds, if it is not among the settings.
        """
        check_types_named(mechanism, *named_types(workload))
        present = present_types(cluster)
        ordered = by_arrival_and_id(workload.in_steps(present))
        split, tick_s = bool(getattr(mechanism, "placement_sensitive", False)), mechanism.tick_s
        truth = TrueState(ordered, present, placement_sensitive=split, tick_s=tick_s)
        network = getattr(mechanism, "network", None)
        network = on_topology(network, getattr(mechanism, "topology", None))
        known = None if network is None else get_network(network, cluster=present)
        told = {**mechanism.by_name(), **settings, "mechanism": mechanism.name}
        if "placement" in told:
            told["placement"] = PLACEMENTS.name_of(told["placement"])
        return cls(*(workload, cluster, ordered, present, truth, known, told, beliefs, tick_s))

    @property
    def jobs(self) -> JobTable:
        """What is told of the jobs, kept up to date."""
        return self.truth.told

    @property
    def seed(self) -> int:
        """Of everything at random."""
        return int(self.settings["seed"])

    def place(self, placement: Any = "consolidated", overheads: SecondsByType = 0.0) -> About:
        """Make the devices, which gangs get by a placement; the network counts from now on.

        Parameters
        ----------
        placement
            Its name, or its class.
        overheads
            Seconds that jobs lose at a start, whoever decides; one number, or by job type.

        Raises
        ------
        InputError
            For an unknown placement, one that compares links where the network knows none, and
            jobs of which the network knows nothing.
        """
        self.network = network_beside(placement, self.network)
        pace = None if self.network is None else pace_of(self.network)
        if self.network is not None:
            check_models(self.network, self.workload, self.present)
            self.settings["network"] = self.network.name
        placer = Placer(self.present, placement, self.seed, pace=pace)
        if placer.placings:
            self.truth.alone_slowdown[:] = least_slowdowns(self.workload, placer.placings)
        return self.placed(placer, lost_s=self.lost_s(overheads))

    def placed(self, devices: Placer, **more: Any) -> About:
        """Let gangs have these devices; return what schedulers and networks are told.

        `more` are ``lost_s``, ``needs``, and ``models`` and ``steps`` of jobs that change what they
        train, see `apportion.mechanism.decider.About`.
        """
        ids, network = self.workload.jobs.index.tolist(), self.network
        about = About(self.jobs, ids, self.present, devices, network, self.seed, **more)
        self.told = about
        return about

    def speeds(self) -> Speeds:
        """Return how fast gangs are by the workload's throughputs, on the network."""
        if self.told is None:
            return TableSpeeds(self.truth)
        alone = TableSpeeds(self.truth, self.told.layout)
        return alone if self.network is None else speeds_on(self.network, alone, self.told)

    def fluid(self) -> Fluid:
        """Return the runtime in which gangs work at these speeds."""
        return Fluid(self.truth, self.speeds(), tick_s=self.tick_s)

    def believed(self) -> Believed:
        """Return what is believed of speeds; from now on it is what is told of the jobs."""
        self._asked = True
        believed = chosen_beliefs(self.beliefs, self.settings)
        started = believed.start(self.truth, self.workload, self.present)
        self.jobs.speed = read_only(started.speed)
        return started

    def sharing(
        self,
        policy: Policy,
        resolve_seconds: float = 0.0,
        resolve_every: float | None = None,
        *,
        tiers: Tiers | None = None,
        late_s: float = 0.0,
        constraints: Kept = "on average",
    ) -> Resolver:
        """Return what asks a policy for shares of time when that is due.

        Parameters
        ----------
        policy
            Over the types of the cluster, or their tiers.
        resolve_seconds, resolve_every, tiers, late_s, constraints
            See `apportion.sim.resolve.Resolver`.

        Raises
        ------
        InputError
            If it lets jobs share GPUs, and nobody knows how fast they are in pairs, or tiers are
            its options.
        """
        if tiers is not None and policy.space_sharing:
            raise InputError(
                f"Policy {policy.label!r} lets jobs share GPUs; under leases, and in rounds with "
                f"tiers=True, every gang has its GPUs to itself. Choose the policy without space "
                f"sharing."
            )
        if policy.space_sharing and self.workload.pairs is None:
            raise InputError(
                f"Policy {policy.label!r} lets jobs share GPUs, but the workload "
                f"{self.workload.name!r} has no pair throughputs; read it with a Gavel oracle as "
                f"throughputs, or set Workload.pairs."
            )
        return Resolver(
            *(policy, self.jobs, self.believed(), self.present),
            tiers=tiers,
            resolve_seconds=resolve_seconds,
            resolve_every=resolve_every,
            late_s=late_s,
            constraints=constraints,
        )

    def lost_s(self, overheads: SecondsByType) -> NDArray[np.float64]:
        """Return what each job loses at a start, seconds, of what is said by job type."""
        name = "preemption_overhead_seconds"
        return np.array(seconds_by_type(name, overheads, self.jobs.job_type), dtype=float)

    def check_heeded(self, label: str) -> None:
        """Refuse what is said of speeds to who decides, if nobody was told of any."""
        if self._asked:
            return
        if self.beliefs is not None:
            raise InputError(
                f"beliefs={written(self.beliefs)} is for policies, in rounds, by leases or "
                f"exactly; {label!r} asks for no speeds. Leave it out."
            )
        for name, default in (("pair_estimates", None), ("learn_pairs", False), ("speeds", "told")):
            if self.settings.pop(name, default) != default:
                raise InputError(
                    f"{name}= does nothing: {label!r} by the mechanism "
                    f"{self.settings['mechanism']!r} asks for no speeds. Leave it out."
                )
