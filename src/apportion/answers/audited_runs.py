"""`audit_run`: who had reason to complain of a run, by what each held from event to event."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from apportion.annotations import checked
from apportion.checks import seconds
from apportion.errors import InputError
from apportion.policies.auditing import Audit
from apportion.policies.auditing.case import Case, envious
from apportion.sim.run import ALONE_ON_GPUS, Run
from apportion.sim.workload_tables import present_types

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from apportion.answers.lies import Lies
    from apportion.sim.workload import Workload
    from apportion.types import Floats


_OVER = 1e-6
"""More than this above the GPUs that there are is no rounding of times: jobs share them."""


class _Period(NamedTuple):
    """A stretch of time in which nobody comes or is done: who is there, and what each holds."""

    length_s: float
    here: NDArray[np.intp]
    case: Case


@checked
def audit_run(
    run: Run, workload: Workload, *, together_s: float = 3600.0, lies: Lies | None = None
) -> Audit:
    """Look for jobs that had reason to complain of a run, whoever decided.

    Between two arrivals or completions shares of time are what jobs held, by `Run.schedule`, and
    are worth what the workload's throughputs make of them; figures are sums over these stretches.

    Parameters
    ----------
    run
        Of jobs that have devices to themselves.
    workload
        That was run.
    together_s
        Envy is told of pairs that were there together for so long at least, seconds.
    lies
        What `apportion.try_lies` found of this run; without it no lies are tried.

    Returns
    -------
    Audit
        ``sharing``: means over the life of each job, its part being of all who were there then;
        ``envy``: what ``job`` would have made of all that ``other`` held while both were there;
        ``pareto_gain``: the mean over time, ``better``: the shares in the stretch of time in which
        most could have been gained; ``lies``: those that pay.

    Raises
    ------
    InputError
        For runs without a schedule of devices, of elastic jobs, in which jobs share GPUs, and of
        another workload.
    """
    seconds("together_s", together_s)
    if lies is not None and not lies.run.jobs["completion_s"].equals(run.jobs["completion_s"]):
        raise InputError(f"The lies are of another run than that of {run.policy!r}.")
    mechanism = run.settings.get("mechanism")
    if mechanism not in ALONE_ON_GPUS:
        raise InputError(
            f"An audit of a run is of jobs with GPUs to themselves; by the mechanism "
            f"{mechanism!r} they may share them."
        )
    if not run.jobs.index.equals(workload.jobs.index):
        raise InputError(f"The run is of {run.workload!r}, not of the workload {workload.name!r}.")
    count = len(run.jobs)
    life_s, has, alone = np.zeros((3, count))
    mine, theirs = np.zeros((2, count, count))
    both_s = np.zeros((count, count))
    whole_s, gained, most, better = 0.0, 0.0, 0.0, None
    for length_s, here, case in _periods(run, workload):
        told = case.sharing()
        life_s[here] += length_s
        has[here] += length_s * told["has"].to_numpy()
        alone[here] += length_s * told["alone"].to_numpy()
        among = np.ix_(here, here)
        both_s[among] += length_s
        mine[among] += length_s * case.made
        theirs[among] += length_s * np.array([case.with_bundle_of(j) for j in range(len(here))])
        gain, shares = case.improved()
        whole_s, gained = whole_s + length_s, gained + length_s * gain
        if gain > most:
            most, better = gain, shares
    theirs[both_s < together_s] = 0.0
    lived = np.maximum(life_s, np.finfo(float).tiny)
    ratio = np.divide(has, alone, out=np.full(count, np.inf), where=alone > 0)
    sharing = {"has": has / lived, "alone": alone / lived, "ratio": ratio}
    return Audit(
        allocation=None,
        sharing=pd.DataFrame(sharing, index=run.jobs.index),
        envy=envious(run.jobs.index, mine, theirs),
        better=better,
        pareto_gain=gained / whole_s if whole_s else 0.0,
        lies=pd.DataFrame(columns=["job"]) if lies is None else lies.pay,
        lies_tried=0 if lies is None else len(lies.table),
        subject=f"the run of {run.policy}",
        lies_told="" if lies is None else lies.told,
    )


def _periods(run: Run, workload: Workload) -> Iterator[_Period]:
    """Give the stretches between events in which somebody is there."""
    present = present_types(run.cluster)
    types = list(present.accelerators)
    jobs, gpus = run.jobs, present.counts.astype(float)
    speed = workload.in_steps(present).throughput_of(present).loc[jobs.index, types].to_numpy(float)
    facts = workload.jobs.loc[jobs.index]
    gang, weight = facts["scale_factor"].to_numpy(float), facts["weight"].to_numpy(float)
    come_s, done_s = jobs["arrival_s"].to_numpy(float), jobs["completion_s"].to_numpy(float)
    cuts = np.unique(np.concatenate([come_s, done_s]))
    held_s = _held(run.schedule, jobs.index, types, cuts)
    for place, length_s in enumerate(np.diff(cuts).tolist()):
        here = np.flatnonzero((come_s <= cuts[place]) & (done_s > cuts[place]))
        if not here.size:
            continue
        X = held_s[place, here] / length_s
        if (gang[here] @ X > gpus * (1 + _OVER)).any():
            raise InputError(
                f"In the run of {run.policy!r} jobs share GPUs; an audit of a run is of jobs that "
                f"have them to themselves."
            )
        own = (speed[here], gang[here], weight[here], gpus, np.minimum(X, 1.0))
        yield _Period(length_s, here, Case(jobs.index[here], types, *own))


def _held(schedule: pd.DataFrame, jobs: pd.Index, types: list[str], cuts: Floats) -> Floats:
    """Return for how long jobs held devices of each type, shape (stretches, jobs, types)."""
    held_s = np.zeros((cuts.size - 1, len(jobs), len(types)))
    job = jobs.get_indexer(pd.Index(schedule["job"]))
    kind = pd.Index(types).get_indexer(pd.Index(schedule["accelerator"]))
    begin_s, end_s = schedule["start_s"].to_numpy(float), schedule["end_s"].to_numpy(float)
    first = np.maximum(np.searchsorted(cuts, begin_s, side="right") - 1, 0)
    last = np.minimum(np.searchsorted(cuts, end_s, side="left"), cuts.size - 1)
    for stay in range(len(schedule)):
        at = np.arange(first[stay], last[stay])
        inside = np.minimum(cuts[at + 1], end_s[stay]) - np.maximum(cuts[at], begin_s[stay])
        held_s[at, job[stay], kind[stay]] += np.maximum(inside, 0.0)
    return held_s
