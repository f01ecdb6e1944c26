"""Leases: GPUs offered to waiting jobs, by a scheduler, or by a policy over tiers."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from apportion.errors import InputError, written
from apportion.mechanism.leases import OfferScheduler, get_timers
from apportion.mechanism.leases.rules import DelayScheduling, NoWait, SkewBased, spelled
from apportion.sim.about import Parts
from apportion.sim.leasing.columns import LeaseColumns, TimerLog
from apportion.sim.network import COMMUNICATING_MODELS, get_network
from apportion.sim.tiers.round_plans import RoundPlans
from apportion.sim.tiers.tier_problem import Tiers, at_tiers
from apportion.sim.tiers.tier_shares import TierShares

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.cluster import Cluster
    from apportion.mechanism.decider import About
    from apportion.mechanisms import Leases
    from apportion.policies import Policy
    from apportion.sim.about import AboutRun
    from apportion.sim.beliefs import Believed
    from apportion.sim.network import MemoizedNetwork
    from apportion.sim.record import Columns
    from apportion.sim.workload import Workload

_LOG = logging.getLogger(__name__)

_ANY_JOB_TYPE = ("none", "static")
"""Networks that know no models, and so take any."""


def leases(mechanism: Leases, decider: Any, about: AboutRun) -> Parts:
    """Offer free GPUs to waiting jobs, who hold them for a lease; or ask who decides itself."""
    timers = mechanism.timers
    about.settings["timers"] = repr(timers) if hasattr(timers, "timer_s") else timers
    if not hasattr(decider, "make"):
        return _by_policy(mechanism, decider, about)
    terms = (decider.terms or OfferScheduler(decider.label)).under(mechanism)
    told = racks(about, terms)
    if decider.terms is not None:
        about.settings["scheduler"] = repr(terms)
        knowing = _knowing_skews(terms, told.jobs.job_type, told.network)
        return offered(about, told, knowing.make(told), terms)
    about.settings["checkpoint_seconds_per_gpu"] = 0.0
    scheduler = decider.make(told)
    if not scheduler.event_driven:
        raise InputError(
            f"{decider.label!r} decides at times of its own only (event_driven = False); "
            f"under leases it has to hear of arrivals and completions."
        )
    return offered(about, told, scheduler, terms)


def _by_policy(mechanism: Leases, policy: Policy, about: AboutRun) -> Parts:
    """Let a policy say who is offered GPUs: by shares of tiers, or by asking it at each offer."""
    places = getattr(policy, "places_gangs", False)
    usual = "tuned" if places else "none"
    timers = get_timers(usual if mechanism.timers is None else mechanism.timers)
    rule = NoWait() if timers is None else DelayScheduling()
    terms = OfferScheduler(policy.label, policy.source, rule=rule)
    terms = terms.under(replace(mechanism, timers=timers))
    told = racks(about, terms)
    tiers = Tiers.in_leases(about.workload, told)
    if places:
        believed = about.believed()
        _check_fixed(policy, believed)
        plans = RoundPlans(policy, terms.rule, at_tiers(believed.speed, tiers.slowdown))
        return offered(about, told, terms.make(told, plans), terms)._replace(asked=plans.asked)
    shares = TierShares(
        about.sharing(
            *(policy, mechanism.resolve_seconds, mechanism.resolve_every),
            tiers=tiers,
            constraints="in each decision",
        ),
        lease_s=terms.lease_s,
        pause_s=max(terms.checkpoints_s(told.jobs.job_type, told.jobs.scale.tolist()), default=0.0),
        rule=None if timers is None else terms.rule,
    )
    return offered(about, told, terms.make(told, shares), terms)._replace(asked=shares.asked)


def racks(about: AboutRun, terms: OfferScheduler) -> About:
    """Make the GPUs that are offered on some terms.

    Raises
    ------
    InputError
        If racks are not whole, or a job would lose whole leases.
    """
    _check_racks(about.present)
    _check_starts(terms, about.workload)
    about.network = about.network or get_network("none", cluster=about.present)
    return about.place(terms.placement, terms.overhead_s)


def offered(about: AboutRun, told: About, scheduler: Any, terms: OfferScheduler) -> Parts:
    """Return the parts of a run on racks.

    Parameters
    ----------
    about, told
        The run, and what schedulers are told of it.
    scheduler
        Decides; its delay timers are told, if it has some that are tuned.
    terms
        What leases are like.
    """
    columns: list[Columns] = [LeaseColumns(about.truth, told, terms.lease_s)]
    if terms.timers.tuned:
        ends_s = about.truth.completion_s
        log = TimerLog(scheduler.timers, lambda: scheduler.wake(float(ends_s.max())))
        scheduler.noted = log.note
        columns.append(log)
    return Parts(scheduler, about.fluid(), columns=columns)


def _check_fixed(policy: Policy, believed: Believed) -> None:
    """Refuse speeds that are learnt while gangs run."""
    if not believed.fixed:
        raise InputError(
            f"{policy.label!r} learns no speeds from what runs; leave out speeds= or beliefs=, or "
            f"give 'told' or 'agnostic'."
        )


def _knowing_skews(
    scheduler: OfferScheduler, job_types: Sequence[str], network: MemoizedNetwork
) -> OfferScheduler:
    """Let a rule by skew know those of models of which the network has the tensors.

    Of job types of one's own nobody knows it: where the network knows no models either, it is low.
    """
    rule, model = scheduler.rule, network.model
    if not isinstance(rule, SkewBased):
        return scheduler
    profiles, skews = getattr(getattr(model, "analytic", model), "profiles", {}), {}
    for job_type in dict.fromkeys(job_types):
        profile: Any = profiles.get(spelled(job_type, profiles))
        if len(getattr(profile, "layers", ())) > 1:  # of one nothing is known of its tensors
            skews[job_type] = profile.skew
        elif getattr(model, "shares_links", False) and (
            sent := COMMUNICATING_MODELS.get(spelled(job_type, COMMUNICATING_MODELS))
        ):
            skews[job_type] = sent.largest / sent.parameters
    known = {*rule.skews, *skews}
    unknown = [each for each in dict.fromkeys(job_types) if each not in known]
    if unknown and network.name in _ANY_JOB_TYPE:
        skews |= dict.fromkeys(unknown, 0.0)
        names = ", ".join(map(written, unknown[:3])) + ", ..." * (len(unknown) > 3)
        _LOG.warning("%s: the skew of %s is not known, and taken as low", scheduler.name, names)
    return replace(scheduler, rule=rule.knowing(skews))


def _check_racks(cluster: Cluster) -> None:
    """Refuse racks that are not whole, and types of which there are none."""
    for name, gpus in cluster.gpus.items():
        if not gpus:
            raise InputError(
                f"Leases are for racks, and the cluster {cluster} has none of type {name!r}; "
                f"leave it out. Valid: e.g. Cluster.of_racks(4)."
            )
        cluster.racks(name)


def _check_starts(scheduler: OfferScheduler, workload: Workload) -> None:
    """Refuse starts that take all of a lease: the job might never get anywhere."""
    jobs = workload.jobs
    _, starts_s = scheduler.starts_s(jobs["job_type"].tolist(), jobs["scale_factor"].tolist())
    for job, gpus, lost_s in zip(jobs.index, jobs["scale_factor"], starts_s, strict=True):
        if lost_s >= scheduler.lease_s:
            raise InputError(
                f"restore_s_per_gpu is {scheduler.restore_s_per_gpu!r} and overhead_s "
                f"(preemption_overhead_seconds) {scheduler.overhead_s!r}: with {gpus} GPUs job "
                f"{written(job)} would lose {lost_s:g} s at a start, all of a lease; valid: less "
                f"than {scheduler.lease_s:g} s together."
            )
