"""Asking a policy over tiers, and which tiers it sees in rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.cluster import TIERS
from apportion.errors import InputError
from apportion.mechanism.shares import NO_PAIRS
from apportion.sim.network.model import placings_of
from apportion.sim.resolve import Resolver
from apportion.sim.tiers.tier_problem import TierOptions, seen_slowdowns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apportion.mechanism.decider import About
    from apportion.mechanism.devices import Held
    from apportion.mechanism.job_table import JobTable
    from apportion.mechanism.scheduler import GangProgress
    from apportion.mechanism.shares import Resources, Shares
    from apportion.mechanisms.past import Past
    from apportion.policies import Instance, Policy
    from apportion.sim.about import AboutRun
    from apportion.sim.beliefs import Believed
    from apportion.sim.resolve import Pose
    from apportion.types import Ints


class TieredResolver(Resolver):
    """Solves a policy over tiers of types, and learns how fast jobs are at any of them.

    Parameters
    ----------
    policy, resolve_seconds, resolve_every, late_s
        As in `Resolver`.
    options
        What jobs are believed to make at each tier.

    Raises
    ------
    InputError
        If the policy lets jobs share GPUs.
    """

    def __init__(
        self,
        policy: Policy,
        resolve_seconds: float,
        resolve_every: float | None,
        options: TierOptions,
        *,
        pose: Pose | None = None,
        late_s: float = 0.0,
    ) -> None:
        if policy.space_sharing:
            raise InputError(
                f"Policy {policy.label!r} lets jobs share GPUs; under leases, and in rounds with "
                f"tiers=True, every gang has its GPUs to itself. Choose the policy without space "
                f"sharing."
            )
        self._options = options
        table, believed, posed = options.table, options.believed, pose or options.pose
        super().__init__(
            *(policy, resolve_seconds, resolve_every, table, believed, posed),
            late_s=late_s,
            constraints="in each decision",
        )

    @property
    def _counted(self) -> JobTable:
        return self._options.told

    def solve(self, now_s: float) -> Shares:
        """Return the shares of the jobs that are there, at each option."""
        self.jobs.active = self._options.told.active
        return super().solve(now_s)

    def resources(self, now_s: float, for_s: float, pairs: Ints = NO_PAIRS) -> Resources:
        """Return what gangs may hold at once; at a tier at least what they hold at tighter ones."""
        self.jobs.active = self._options.told.active
        found = super().resources(now_s, for_s, pairs)
        rows, options, each = found.usage.shape
        by_tier = found.usage.reshape(rows, options // len(TIERS), len(TIERS), each)
        most = np.maximum.accumulate(by_tier, axis=2).reshape(found.usage.shape)
        return found._replace(usage=most)

    def take_over(self, past: Past) -> None:
        """Begin in the middle: who is on a type all the time is at some tier of it."""
        super().take_over(past)
        self._running_on = np.where(past.running_on < 0, -1.0, past.running_on * len(TIERS))

    def _labels(self, instance: Instance) -> Mapping[str, Ints]:
        kind = instance.option_accelerator
        return {"accelerator": kind, "tier": np.arange(kind.size) % len(TIERS)}

    def observe(self, ran: GangProgress) -> Ints:
        """Learn from what ran; return the jobs whose believed speeds moved."""
        moved = super().observe(self._options.by_itself(ran))
        if moved.size:
            self._options.believe(moved)
        return moved


def seen_in_rounds(
    policy: Policy, asked: bool | None, run: AboutRun, about: About, believed: Believed
) -> TierOptions | None:
    """Return the tiers over which a policy is solved in rounds; None if its shares are of types.

    Parameters
    ----------
    policy
        The policy.
    asked
        With None whatever slows gangs down is seen, by policies that know types and do not share
        GPUs.
    run, about
        Jobs as they are, and what they run on.
    believed
        How fast jobs are believed to be.

    Raises
    ------
    InputError
        If tiers are asked for where nothing slows gangs down.
    """
    network, truth = about.network, run.truth
    blind = policy.space_sharing or not policy.heterogeneity_aware
    if asked is False or (asked is None and blind):
        return None
    if asked and network is None and truth.split_ratio is None:
        raise InputError(
            "tiers=True does nothing where gangs are as fast everywhere; give network=, or "
            "placement_sensitive=True, or leave it out."
        )
    slowdown = seen_slowdowns(run.workload, about.cluster, network, truth.split_ratio)
    if slowdown is None:
        return None
    placings = [] if network is None else placings_of(about.cluster, network)
    job_type, layout, ratio = about.jobs.job_type, about.layout, truth.split_ratio

    def slowdown_at(job: int, held: Held) -> float:
        where = layout.placement(held)
        slow = placings[held[0]].worth(job_type[job], where)[0] if placings else 1.0
        return slow if ratio is None or len(where) == 1 else slow / float(ratio[job, held[0]])

    return TierOptions(truth.told, believed, slowdown, slowdown_at, about.cluster)
