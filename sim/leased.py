"""Policies and schedulers on racks: GPUs offered to waiting jobs and held for a lease."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from apportion.mechanism.offers import OfferScheduler
from apportion.sim.given_order import present_types
from apportion.sim.leasing.simulate import run_leases
from apportion.sim.tier_shares import TierShares

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from apportion.cluster import Cluster
    from apportion.policies import Policy
    from apportion.sim.engine import Truth
    from apportion.sim.engine.snapshot import Snapshots
    from apportion.sim.network import NetworkModel
    from apportion.sim.run import Run
    from apportion.sim.workload import Workload

__all__ = ["run_leased"]


def run_leased(
    decider: Policy | OfferScheduler,
    workload: Workload,
    cluster: Cluster,
    settings: Mapping[str, Any],
    progress: Callable[[float, int], None] | None,
    snapshots: Snapshots | None = None,
) -> Run:
    """Run a workload under leases.

    Parameters
    ----------
    decider
        A scheduler, or a policy that is solved over tiers.
    workload, cluster
        Jobs, and whole racks, each of one accelerator type.
    settings
        Those of ``"leases"`` as `apportion.sim.settings.settings_for` returns them.
    progress
        As in `apportion.simulate`.
    snapshots
        From which the run goes on, and where it leaves its state.
    """
    told = {
        "lease_s": settings["lease_seconds"],
        "checkpoint_s_per_gpu": settings["checkpoint_seconds_per_gpu"],
        "placement": settings["placement"],
    }
    changes = {name: value for name, value in told.items() if value is not None}
    asked: list[TierShares] = []
    if isinstance(decider, OfferScheduler):
        terms, takers = replace(decider, **changes), None
    else:
        policy, terms = decider, OfferScheduler(decider.label, decider.source, **changes)

        def takers(truth: Truth, ordered: Workload, network: NetworkModel) -> TierShares:
            asked.append(
                TierShares(
                    *(policy, truth, ordered, present_types(cluster), network),
                    lease_s=terms.lease_s,
                    resolve_seconds=settings["resolve_seconds"],
                )
            )
            return asked[0]

    run = run_leases(
        *(terms, workload, cluster),
        network=settings["network"],
        seed=settings["seed"],
        progress=progress,
        takers=takers,
        snapshots=snapshots,
    )
    if not asked:
        return replace(run, settings={**settings, **run.settings})
    return replace(
        run,
        settings={**settings, "network": run.settings["network"]},
        policy_seconds=asked[0].resolver.policy_seconds,
        solves=asked[0].resolver.solves,
    )
