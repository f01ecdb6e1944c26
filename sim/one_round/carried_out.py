"""By which mechanism a round is carried out, and of which workload it is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from apportion.errors import InputError, written
from apportion.sim.deciders import manner_of
from apportion.sim.elastic.told_goodputs import ToldGoodputs
from apportion.sim.one_round.told_jobs import ToldJobs, ToldTiers
from apportion.sim.settings import settings_for

if TYPE_CHECKING:
    from apportion.mechanisms import Mechanism
    from apportion.pairs import PairThroughputs
    from apportion.sim.one_round.state import RoundState

__all__ = ["check_pinned", "mechanism_of", "shares_of", "workload_of"]


def mechanism_of(
    decider: Any, mechanism: Mechanism | str | None, given: dict[str, Any], *, elastic: bool
) -> tuple[Any, dict[str, Any]]:
    """Return the mechanism of a round, and its settings by name.

    Raises
    ------
    InputError
        As `apportion.sim.settings.settings_for`; for settings that are for simulations only, and
        throughputs that are not of the kind that the mechanism is for.
    """
    for name in ("speeds", "references", "optimism"):
        if given.get(name) is not None:
            raise InputError(
                f"{name}={written(given[name])} is for simulations; a round believes the "
                f"throughputs as they are given."
            )
    by_gpus = "give throughputs with columns (accelerator, gpus)"
    if not elastic and manner_of(decider).works_by[:1] == ("configurations",):
        raise InputError(f"{decider.label!r} is for elastic jobs: {by_gpus}.")
    chosen, told = settings_for([decider], mechanism, given, elastic=elastic or None)
    if chosen.elastic and not elastic:
        raise InputError(f"mechanism={chosen.name!r} is for elastic jobs: {by_gpus}.")
    if chosen.name == "exact":
        raise InputError(
            "mechanism='exact' gives nobody devices: solve(policy, throughputs) returns the shares."
        )
    if chosen.name == "leases" and isinstance(mechanism, str | None) and not given.get("network"):
        chosen = replace(chosen, network="none")
    for name in ("serving", "network") if elastic else ():
        if getattr(chosen, name, None) is not None:
            raise InputError(
                f"{name}= is for simulations of elastic jobs; leave it out of a round."
            )
    return chosen, told


def shares_of(decider: Any, chosen: Any) -> str:
    """Return in which way jobs may have the same devices."""
    if chosen.name == "iterations":
        return "memory"
    return "pairs" if getattr(decider, "space_sharing", False) else "nothing"


def check_pinned(state: RoundState, chosen: Any) -> None:
    """Refuse jobs that must keep devices which they do not have, or where nobody must.

    Raises
    ------
    InputError
        It names the job, or the mechanism.
    """
    jobs = state.jobs
    if "pinned" not in jobs.columns or not jobs["pinned"].any():
        return
    if chosen.name in ("rounds", "queue"):
        raise InputError(
            f"The column 'pinned' is for leases and elastic jobs; by {chosen.name!r} whoever runs "
            f"may be stopped. Leave the job and its devices out."
        )
    there = {job for gang in state.running for job in gang.jobs}
    for job in jobs.index[jobs["pinned"].astype(bool)].tolist():
        if job not in there:
            raise InputError(f"Job {written(job)} is pinned and has no devices in running=.")


def workload_of(state: RoundState, chosen: Any, pairs: PairThroughputs | None) -> tuple[Any, Any]:
    """Return the jobs that take part as a workload, and the mechanism on their network.

    Raises
    ------
    InputError
        For throughputs by tier where the mechanism knows none, or beside a network.
    """
    tensor, table, speeds = state.tensor, state.table(), state.speeds()
    if tensor.gpus_of_option is not None:
        gpus = tensor.gpus_of_option.astype(int).tolist()
        options = list(zip(tensor.accelerator_of_option, gpus, strict=True))
        most = max(state.available.cluster.gpus.values()) if state.available else 1
        table = table.assign(scale_factor=table["scale_factor"].clip(upper=most))
        goodputs = tensor.values.set_axis(tensor.jobs, axis=0).loc[table.index]
        rigid = ToldJobs.of(table, speeds)
        return ToldGoodputs(rigid, goodputs, options, state.cluster), chosen
    if tensor.has_tiers:
        if chosen.name not in ("rounds", "leases"):
            raise InputError(
                f"Throughputs by tier are for rounds and leases, not for {chosen.name!r}; give "
                f"them by accelerator."
            )
        if chosen.network not in (None, "none", type(chosen).network):
            raise InputError(
                f"network={written(chosen.network)} stands beside throughputs by tier, which say "
                f"what it would; leave one of them out."
            )
        tiers: Any = ToldTiers.of(table, state.by_tier(), state.cluster)
        chosen = replace(chosen, network=tiers)
    return ToldJobs.of(table, speeds, pairs), chosen
