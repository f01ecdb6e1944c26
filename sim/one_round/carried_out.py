"""By which mechanism a round is carried out, and of which workload it is."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from apportion.errors import InputError, written
from apportion.sim.deciders import manner_of
from apportion.sim.settings import settings_for
from apportion.sim.workload import Workload

if TYPE_CHECKING:
    from apportion.mechanisms import Mechanism
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
    def of(cls, jobs: pd.DataFrame, speeds: pd.DataFrame) -> ToldJobs:
        """Make one of a jobs table and the speeds of these jobs."""
        keys = pd.MultiIndex.from_frame(jobs[["job_type", "scale_factor"]])
        first = ~keys.duplicated()
        by_type = speeds[first].set_axis(keys[first], axis=0)
        return cls("one round", jobs, by_type, speeds=speeds)

    def _speeds(self) -> pd.DataFrame:
        return self.speeds.loc[self.jobs.index]


def mechanism_of(
    decider: Any, mechanism: Mechanism | str | None, given: dict[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """Return the mechanism of a round, and its settings by name.

    Raises
    ------
    InputError
        As `apportion.sim.settings.settings_for`; for settings that are for simulations only, and
        what is for elastic jobs.
    """
    for name in ("speeds", "references", "optimism", "rows"):
        if given.get(name) is not None:
            raise InputError(
                f"{name}={written(given[name])} is for simulations; a round believes the "
                f"throughputs as they are given."
            )
    if manner_of(decider).works_by[:1] == ("configurations",):
        raise InputError(f"{decider.label!r} is for elastic jobs, which are for simulate.")
    chosen, told = settings_for([decider], mechanism, given)
    if chosen.elastic:
        raise InputError(f"mechanism={chosen.name!r} is for elastic jobs, which are for simulate.")
    if chosen.name == "exact":
        raise InputError(
            "mechanism='exact' gives nobody devices: solve(policy, throughputs) returns the shares."
        )
    if chosen.name == "leases" and isinstance(mechanism, str | None) and not given.get("network"):
        chosen = replace(chosen, network="none")
    return chosen, told


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
            f"The column 'pinned' is for leases; by {chosen.name!r} whoever runs may be stopped. "
            f"Leave the job and its devices out."
        )
    there = {gang.job for gang in state.running}
    for job in jobs.index[jobs["pinned"].astype(bool)].tolist():
        if job not in there:
            raise InputError(f"Job {written(job)} is pinned and has no devices in running=.")
