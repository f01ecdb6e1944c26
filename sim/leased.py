"""Policies and schedulers on racks: GPUs offered to waiting jobs and held for a lease."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from apportion.mechanism.offers import OfferScheduler
from apportion.sim.given_order import by_arrival_and_id
from apportion.sim.leasing import simulate_leases
from apportion.sim.network import get_network
from apportion.sim.tier_shares import TierShares

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from apportion.cluster import Cluster
    from apportion.mechanism.offers import Takers
    from apportion.policies import Policy
    from apportion.sim.deciders import Decider
    from apportion.sim.run import Run
    from apportion.sim.workload import Workload

__all__ = ["run_leased"]


def run_leased(
    decider: Decider,
    workload: Workload,
    cluster: Cluster,
    settings: Mapping[str, Any],
    progress: Callable[[float, int], None] | None,
) -> Run:
    """Run a workload under leases.

    Parameters
    ----------
    decider
        A scheduler, or a policy that is solved over tiers.
    workload, cluster
        Jobs, and whole racks of one accelerator type.
    settings
        Those of ``"leases"`` as `apportion.sim.settings.settings_for` returns them.
    progress
        As in `apportion.simulate`.
    """
    told = {
        "lease_s": settings["lease_seconds"],
        "checkpoint_s_per_gpu": settings["checkpoint_seconds_per_gpu"],
    }
    changes = {name: value for name, value in told.items() if value is not None}
    if isinstance(decider, OfferScheduler):
        scheduler, shares = replace(decider, **changes), None
    else:
        scheduler, shares = _of_policy(decider, workload, cluster, settings, changes)
    run = simulate_leases(
        scheduler,
        workload,
        cluster,
        network=settings["network"],
        seed=settings["seed"],
        progress=progress,
    )
    if shares is None:
        return replace(run, settings={**settings, **run.settings})
    return replace(
        run,
        settings={**settings, "network": run.settings["network"]},
        policy_seconds=shares.policy_seconds,
        solves=shares.solves,
    )


@dataclass(frozen=True, repr=False)
class _SharesScheduler(OfferScheduler):
    """A scheduler in which shares of time decide, and not an order and a rule."""

    shares: TierShares | None = field(default=None, compare=False, repr=False)

    def candidates(self) -> Takers:
        """Return what the policy decides by."""
        return self.shares or super().candidates()


def _of_policy(
    policy: Policy,
    workload: Workload,
    cluster: Cluster,
    settings: Mapping[str, Any],
    changes: Mapping[str, Any],
) -> tuple[OfferScheduler, TierShares]:
    """Make the scheduler that serves a policy's shares over tiers."""
    scheduler = _SharesScheduler(policy.label, policy.source, **changes)
    shares = TierShares(
        policy,
        by_arrival_and_id(workload),
        cluster,
        get_network(settings["network"], cluster=cluster),
        lease_s=scheduler.lease_s,
        resolve_seconds=settings["resolve_seconds"],
    )
    return replace(scheduler, shares=shares), shares
