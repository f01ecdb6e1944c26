"""Policies and schedulers on racks: GPUs offered to waiting jobs and held for a lease."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any

from apportion.errors import InputError, written
from apportion.mechanism.offers import ManualTimers, OfferScheduler, get_timers
from apportion.mechanism.offers.rules import DelayScheduling, NoWait
from apportion.policies.extensions import PlacesGangs
from apportion.sim.chosen_beliefs import chosen_beliefs
from apportion.sim.given_order import present_types
from apportion.sim.leasing.simulate import Deciding, run_leases
from apportion.sim.network import on_topology
from apportion.sim.round_plans import RoundPlans
from apportion.sim.tier_shares import TierShares
from apportion.sim.tier_speeds import at_tiers, tier_slowdowns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from apportion.cluster import Cluster
    from apportion.policies import Policy
    from apportion.sim.beliefs import Beliefs, Believed
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
    asked: list[TierShares | RoundPlans] = []
    if isinstance(decider, OfferScheduler):
        if beliefs is not None:
            raise InputError(
                f"beliefs={written(beliefs)} is for policies; {decider.label!r} is a scheduler, "
                f"which asks for no speeds. Leave it out."
            )
        terms = _with_timers(replace(decider, **_changes(settings)), settings["timers"])
        takers = None
    else:
        terms = _terms_of(decider, settings)
        told = chosen_beliefs(beliefs, settings)
        takers = _takers_of(decider, terms, cluster, settings, told, asked)
    run = run_leases(
        *(terms, workload, cluster),
        network=on_topology(settings["network"], settings["topology"]),
        seed=settings["seed"],
        progress=progress,
        takers=takers,
        snapshots=snapshots,
    )
    timers = settings["timers"]
    settings = settings | {"timers": repr(timers) if hasattr(timers, "timer_s") else timers}
    if not asked:
        return replace(run, settings={**settings, **run.settings})
    return replace(
        run,
        settings={**settings, "network": run.settings["network"]},
        **asked[0].asked.figures(),
    )


def _takers_of(
    policy: Policy,
    terms: OfferScheduler,
    cluster: Cluster,
    settings: Mapping[str, Any],
    beliefs: Beliefs,
    asked: list[TierShares | RoundPlans],
) -> Callable[[Truth, Workload, NetworkModel], Deciding]:
    """Return what makes a policy decide who takes what, and notes in `asked` who asks it."""
    present = present_types(cluster)

    def takers(truth: Truth, ordered: Workload, network: NetworkModel) -> Deciding:
        believed = beliefs.start(truth, ordered, present)
        truth.told.speed = believed.speed
        if isinstance(policy, PlacesGangs):
            _check_fixed(policy, believed)
            slowdown = tier_slowdowns(ordered, present, network)
            asked.append(RoundPlans(policy, terms.rule, at_tiers(believed.speed, slowdown)))
            return Deciding(asked[0])
        shares = TierShares(
            *(policy, truth.told, believed, ordered, present, network),
            lease_s=terms.lease_s,
            resolve_seconds=settings["resolve_seconds"],
            resolve_every=settings["resolve_every"],
            rule=None if isinstance(terms.rule, NoWait) else terms.rule,
        )
        asked.append(shares)
        learns = None if believed.fixed else shares.observe
        return Deciding(shares, learns, every_lease=shares.resolver.resolve_every < inf)

    return takers


def _changes(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the terms of leases that are given, as a scheduler calls them."""
    told = {
        "lease_s": settings["lease_seconds"],
        "checkpoint_s_per_gpu": settings["checkpoint_seconds_per_gpu"],
        "placement": settings["placement"],
    }
    return {name: value for name, value in told.items() if value is not None}


def _with_timers(scheduler: OfferScheduler, timers: Any) -> OfferScheduler:
    """Return a scheduler with other timers, if any are given and it has some."""
    if timers is None:
        return scheduler
    if not isinstance(scheduler.rule, DelayScheduling):
        raise InputError(
            f"timers={written(timers)} does nothing to {scheduler.label!r}, whose rule is "
            f"{scheduler.rule.rule!r}; leave it out."
        )
    return replace(scheduler, timers=get_timers(timers) or ManualTimers(0.0, 0.0))


_NOT_OF_PLACES: tuple[tuple[str, Any], ...] = (
    ("placement", None),
    ("resolve_seconds", 0.0),
    ("resolve_every", None),
)
"""Settings that say nothing to policies that place gangs, and what they are where not given."""


def _terms_of(policy: Policy, settings: Mapping[str, Any]) -> OfferScheduler:
    """Return the terms of leases under a policy."""
    places = isinstance(policy, PlacesGangs)
    for name, default in _NOT_OF_PLACES if places else ():
        if settings[name] != default:
            raise InputError(
                f"{name}={written(settings[name])} does nothing to {policy.label!r}, which is "
                f"asked at every offer and says where gangs lie; leave it out."
            )
    given = settings["timers"]
    timers = get_timers(("tuned" if places else "none") if given is None else given)
    terms = OfferScheduler(policy.label, policy.source, **_changes(settings))
    if timers is None:
        return terms
    return replace(terms, rule=DelayScheduling(), timers=timers)


def _check_fixed(policy: Policy, believed: Believed) -> None:
    """Refuse speeds that are learnt while gangs run."""
    if not believed.fixed:
        raise InputError(
            f"{policy.label!r} learns no speeds from what runs; leave out speeds= or beliefs=, or "
            f"give 'told' or 'agnostic'."
        )
