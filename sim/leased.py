"""Policies and schedulers on racks: GPUs offered to waiting jobs and held for a lease."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from apportion.errors import InputError, written
from apportion.mechanism.offers import OfferScheduler
from apportion.sim.chosen_beliefs import chosen_beliefs
from apportion.sim.given_order import present_types
from apportion.sim.leasing.simulate import Deciding, run_leases
from apportion.sim.tier_shares import TierShares

if TYPE_CHECKING:
    from collections.abc import Callable

    from apportion.cluster import Cluster
    from apportion.policies import Policy
    from apportion.sim.beliefs import Beliefs
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
    settings: dict[str, Any],
    beliefs: Beliefs | None,
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
    beliefs
        What a policy is told of speeds, if it is not among the settings.
    progress
        As in `apportion.simulate`.
    snapshots
        From which the run goes on, and where it leaves its state.

    Raises
    ------
    InputError
        For what cannot run, and for beliefs that no policy is told of.
    """
    told = {
        "lease_s": settings["lease_seconds"],
        "checkpoint_s_per_gpu": settings["checkpoint_seconds_per_gpu"],
        "placement": settings["placement"],
    }
    changes = {name: value for name, value in told.items() if value is not None}
    asked: list[TierShares] = []
    if isinstance(decider, OfferScheduler):
        if beliefs is not None:
            raise InputError(
                f"beliefs={written(beliefs)} is for policies; {decider.label!r} is a scheduler, "
                f"which asks for no speeds. Leave it out."
            )
        terms, takers = replace(decider, **changes), None
    else:
        policy, terms = decider, OfferScheduler(decider.label, decider.source, **changes)
        knowledge = chosen_beliefs(beliefs, settings)

        def takers(truth: Truth, ordered: Workload, network: NetworkModel) -> Deciding:
            present = present_types(cluster)
            believed = knowledge.start(truth, ordered, present)
            truth.told.speed = believed.speed
            shares = TierShares(
                *(policy, truth.told, believed, ordered, present, network),
                lease_s=terms.lease_s,
                resolve_seconds=settings["resolve_seconds"],
            )
            asked.append(shares)
            return Deciding(shares, None if believed.fixed else shares.observe)

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
