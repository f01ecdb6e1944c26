"""`simulate`: one policy, one workload, one cluster."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from apportion.cluster import Cluster
from apportion.errors import InputError, unknown_name
from apportion.mechanism.placement import Placer
from apportion.policies import get_policy
from apportion.sim.ideal import run_ideal
from apportion.sim.ledger import Ledger
from apportion.sim.log import RoundLog
from apportion.sim.metrics import jobs_table
from apportion.sim.progress import Progress
from apportion.sim.resolve import Resolver
from apportion.sim.rounds import run_rounds
from apportion.sim.run import Run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from apportion.pairs import PairThroughputs
    from apportion.policies import Policy
    from apportion.sim.workload import Workload

__all__ = ["MECHANISMS", "simulate"]

MECHANISMS = ("rounds", "ideal")
"""Names of the ways in which shares are realised."""


def simulate(
    policy: str | Policy,
    workload: Workload,
    cluster: Cluster | Mapping[str, int] | str,
    *,
    round_seconds: float = 360.0,
    resolve_seconds: float = 0.0,
    mechanism: Literal["rounds", "ideal"] = "rounds",
    preemption_overhead_seconds: float = 0.0,
    placement: str = "consolidated",
    placement_sensitive: bool = False,
    pair_estimates: PairThroughputs | None = None,
    learn_pairs: bool = False,
    carry_over: bool | None = None,
    leases: bool = True,
    seed: int = 0,
    progress: Callable[[float, int], None] | None = None,
) -> Run:
    """Run a workload under a policy until every job is complete.

    Parameters
    ----------
    policy
        A policy or its name.
    workload
        The jobs and their throughputs.
    cluster
        A `Cluster`, a mapping of GPU counts, or text such as ``"v100=8,k80=16"``.
    round_seconds
        Length of a round, seconds (Gavel: 360).
    resolve_seconds
        Least time between two solves of the policy, seconds; 0 solves at the start of every
        round before which a job has arrived or completed. (Gavel: 1920.)
    mechanism
        ``"rounds"``, or ``"ideal"`` to have every share exactly, without rounds.
    preemption_overhead_seconds
        Seconds that a job loses whenever it starts, resumes or moves.
    placement
        How gangs get their devices: ``"consolidated"``, ``"first_fit"`` or ``"random"``.
    placement_sensitive
        Whether a gang whose GPUs sit in more than one machine runs at its unconsolidated
        throughput, which the workload must have. Gavel's simulator lets it run as if it were whole.
    pair_estimates
        What a policy with space sharing is told of pairs (see `apportion.estimators`), while the
        workload's own pair throughputs decide how fast they run.
    learn_pairs
        Whether it is told the truth of a pair once the pair has run on a type.
    carry_over
        Whether jobs keep what they are owed when the policy is solved again. Without, as Gavel has
        it, the time received is counted anew, and the shares are missed the more, the more often
        the policy is solved. By default it is carried over if the policy is solved on every event
        (``resolve_seconds=0``), and not if it is solved at intervals as Gavel does.
    leases
        Whether a job that runs again on the same type keeps its devices and goes on. Without, every
        job is stopped at the end of its round and pays `preemption_overhead_seconds` in each.
    seed
        Seed of the random placement.
    progress
        Called with (fraction done, jobs done) a few times per second at most.

    Raises
    ------
    InputError
        If a setting or a name is wrong, or a job cannot run on the cluster.
    SolveError
        If the policy fails; a note tells which and when.
    """
    started = time.perf_counter()
    cluster = Cluster.of(cluster)
    settings = _Settings(
        round_seconds=round_seconds,
        resolve_seconds=resolve_seconds,
        mechanism=mechanism,
        preemption_overhead_seconds=preemption_overhead_seconds,
        placement=placement,
        placement_sensitive=placement_sensitive,
        carry_over=resolve_seconds == 0 if carry_over is None else carry_over,
        leases=leases,
        seed=seed,
    )
    placer = Placer(cluster, placement, seed)
    resolver = Resolver(get_policy(policy), resolve_seconds)
    ledger = Ledger(
        workload,
        cluster,
        placement_sensitive=placement_sensitive,
        estimates=pair_estimates,
        learns=learn_pairs,
    )
    _check_sharing(resolver.policy, workload, pair_estimates, mechanism)
    log, reporter = RoundLog(cluster.accelerators), Progress(progress)
    if mechanism == "ideal":
        run_ideal(ledger, resolver, log, reporter)
    else:
        run_rounds(
            *(ledger, resolver, placer, log, reporter),
            round_seconds=round_seconds,
            overhead_seconds=preemption_overhead_seconds,
            carry_over=settings.carry_over,
            leases=leases,
        )
    reporter.finish(ledger)
    run = _result(workload, cluster, ledger, resolver, log)
    return replace(run, settings=asdict(settings), wall_seconds=time.perf_counter() - started)


def _result(
    workload: Workload, cluster: Cluster, ledger: Ledger, resolver: Resolver, log: RoundLog
) -> Run:
    """Put the tables of a finished simulation together."""
    return Run(
        policy=resolver.policy.label,
        workload=workload.name,
        cluster=cluster,
        jobs=jobs_table(ledger, workload, cluster),
        rounds=log.table(),
        settings={},
        policy_seconds=resolver.policy_seconds,
        wall_seconds=0.0,
        solves=resolver.solves,
    )


def _check_sharing(
    policy: Policy, workload: Workload, estimates: PairThroughputs | None, mechanism: str
) -> None:
    """Refuse space sharing without pair throughputs, and estimates where nothing is tried."""
    if estimates is not None and mechanism == "ideal":
        raise InputError("pair_estimates are for mechanism='rounds', in which pairs are tried.")
    if policy.space_sharing and workload.pairs is None:
        raise InputError(
            f"Policy {policy.label!r} lets jobs share GPUs, but the workload {workload.name!r} has "
            f"no pair throughputs; read it with a Gavel oracle as throughputs, or set "
            f"Workload.pairs."
        )


@dataclass(frozen=True)
class _Settings:
    """The settings of a simulation, checked."""

    round_seconds: float
    resolve_seconds: float
    mechanism: str
    preemption_overhead_seconds: float
    placement: str
    placement_sensitive: bool
    carry_over: bool
    leases: bool
    seed: int

    def __post_init__(self) -> None:
        if self.mechanism not in MECHANISMS:
            raise unknown_name("mechanism", self.mechanism, MECHANISMS)
        if not (np.isfinite(self.round_seconds) and self.round_seconds > 0):
            raise InputError(f"round_seconds is {self.round_seconds!r}; it must be a number > 0.")
        if not self.resolve_seconds >= 0:
            raise InputError(
                f"resolve_seconds is {self.resolve_seconds!r}; it must be a number >= 0."
            )
        overhead = self.preemption_overhead_seconds
        if not 0 <= overhead < self.round_seconds:
            raise InputError(
                f"preemption_overhead_seconds is {overhead!r}; it must be a number >= 0 and less "
                f"than round_seconds ({self.round_seconds:g}), or a job might never get anywhere."
            )
