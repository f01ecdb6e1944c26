"""By which mechanism a round is carried out, and of which workload it is.

Throughputs may be told job by job.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.cluster import TIERS
from apportion.errors import InputError, written
from apportion.sim.deciders import manner_of
from apportion.sim.elastic.told_goodputs import ToldGoodputs
from apportion.sim.network.shapes import gpus_of, tier_of
from apportion.sim.settings import settings_for
from apportion.sim.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apportion.cluster import Cluster
    from apportion.mechanisms import Mechanism
    from apportion.pairs import PairThroughputs
    from apportion.sim.network.shapes import Shape
    from apportion.sim.one_round.state import RoundState


@dataclass(frozen=True, eq=False, repr=False)
class ToldJobs(Workload):
    """A workload whose jobs are as fast as a table of jobs by types says, whatever they train.

    Parameters
    ----------
    speeds
        Steps/s of each job on each accelerator type.
    """

    speeds: pd.DataFrame = field(default_factory=pd.DataFrame)

    @classmethod
    def of(
        cls, jobs: pd.DataFrame, speeds: pd.DataFrame, pairs: PairThroughputs | None = None
    ) -> ToldJobs:
        """Make one of a jobs table and the speeds of these jobs."""
        keys = pd.MultiIndex.from_frame(jobs[["job_type", "scale_factor"]])
        first = ~keys.duplicated()
        by_type = speeds[first].set_axis(keys[first], axis=0)
        return cls("one round", jobs, by_type, pairs=pairs, speeds=speeds)

    def _speeds(self) -> pd.DataFrame:
        return self.speeds.loc[self.jobs.index]


@dataclass(frozen=True, eq=False)
class ToldTiers:
    """A network in which gangs are as slow at a tier as their throughputs there say.

    Parameters
    ----------
    slowdown
        Time of a step at each tier over that at the fastest, by job type and GPUs; infinite where
        nothing is told.
    """

    slowdown: Mapping[tuple[str, int], tuple[float, ...]]
    name: str = "told"

    @classmethod
    def of(
        cls, jobs: pd.DataFrame, by_tier: Mapping[str, pd.DataFrame], cluster: Cluster
    ) -> ToldTiers:
        """Make one of steps/s of jobs by tier, of each accelerator type.

        Raises
        ------
        InputError
            For jobs of one type and size that tiers slow down in different ways, and for a job that
            they do on different types: networks know models, not accelerators.
        """
        known: dict[tuple[str, int], tuple[object, tuple[float, ...]]] = {}
        keys = zip(jobs["job_type"].tolist(), jobs["scale_factor"].tolist(), strict=True)
        for place, (job, key) in enumerate(zip(jobs.index.tolist(), keys, strict=True)):
            for accelerator in [each for each in cluster.accelerators if each in by_tier]:
                speed = by_tier[accelerator].to_numpy()[place]
                if not speed.any():
                    continue
                with np.errstate(divide="ignore"):
                    slow = tuple((speed.max() / speed).tolist())
                other, before = known.setdefault(key, (job, slow))
                if not np.allclose(before, slow):
                    raise InputError(
                        f"Tiers slow job {written(job)} down by {_written(slow)} on "
                        f"{accelerator!r}, and job {written(other)}, of the same job type and "
                        f"GPUs, by {_written(before)} elsewhere; a network knows job types and no "
                        f"accelerators. Give job types of their own, or network= and throughputs "
                        f"by type."
                    )
        return cls({key: slow for key, (_, slow) in known.items()})

    def overhead(self, job_type: str, shape: Shape) -> float:
        """Return how much longer than at the fastest tier a step takes.

        Raises
        ------
        InputError
            For a tier at which the throughput is 0, or not told.
        """
        tier = tier_of(shape)
        slow = self.slowdown.get((job_type, gpus_of(shape)))
        if slow is None:
            return 0.0
        if np.isinf(slow[tier]):
            raise InputError(
                f"Jobs of type {job_type!r} with {gpus_of(shape)} GPUs can lie at the tier "
                f"{TIERS[tier]!r} of this cluster, and their throughput there is 0 or not told; a "
                f"round needs it. (Which tiers a job accepts is up to its rule and timers.)"
            )
        return slow[tier] - 1.0


def _written(slow: tuple[float, ...]) -> str:
    return ", ".join(f"{each:.4g}" for each in slow)


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
    for name in ("speeds", "references", "optimism", "rows"):
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
