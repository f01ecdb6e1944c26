"""Policies in rounds or exactly, and queues: the parts that these mechanisms make of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apportion.cluster import TIERS
from apportion.mechanism.rounds import InRounds
from apportion.mechanism.shares import Exactly
from apportion.sim.about import Parts
from apportion.sim.tiers.tier_problem import Tiers

if TYPE_CHECKING:
    from apportion.mechanisms import Exact, Queue, Rounds
    from apportion.policies import Policy
    from apportion.sim.about import AboutRun


def rounds(mechanism: Rounds, policy: Policy, about: AboutRun) -> Parts:
    """Carry shares of time out in rounds."""
    told = about.place(mechanism.placement, mechanism.preemption_overhead_seconds)
    lost_s = told.lost_s
    # What a job may lose beside its shares: the rest of a round, and two starts.
    late_s = mechanism.seconds + 2 * float(lost_s.max(initial=0.0))
    tiers = Tiers.in_rounds(policy, mechanism.tiers, about, told)
    sharing = about.sharing(
        *(policy, mechanism.resolve_seconds, mechanism.resolve_every),
        tiers=tiers,
        late_s=late_s,
        constraints="in each decision",
    )
    scheduler = InRounds(
        *(told.jobs, told.devices, sharing, f"Policy {policy.label!r}"),
        round_seconds=mechanism.seconds,
        lost_s=lost_s,
        carry_over=bool(mechanism.carry_over),
        work_conserving="leaves_gpus_idle" not in policy.traits,
        in_turn="meets_deadlines" in policy.traits,
        leases=mechanism.leases,
        tiers=1 if tiers is None else len(TIERS),
    )
    return Parts(scheduler, about.fluid(), sharing.asked)


def exact(mechanism: Exact, policy: Policy, about: AboutRun) -> Parts:
    """Let jobs have their shares of time exactly; nobody has devices."""
    times = mechanism.resolve_seconds, mechanism.resolve_every
    sharing = about.sharing(policy, *times, constraints="exactly")
    scheduler = Exactly(about.jobs, sharing, f"Policy {policy.label!r}")
    return Parts(scheduler, about.fluid(), sharing.asked)


def queue(mechanism: Queue, decider: Any, about: AboutRun) -> Parts:
    """Let a queue, or whoever decides by itself, give devices."""
    told = about.place(mechanism.placement, mechanism.preemption_overhead_seconds)
    return Parts(decider.make(told), about.fluid())
