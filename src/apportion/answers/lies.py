"""`try_lies`: what a job of a run gains if it tells the scheduler something else than the truth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Unpack

import numpy as np

from apportion.annotations import checked
from apportion.answers.one_lie import Lie, Situation, family_of, lived
from apportion.checks import whole
from apportion.cluster import Cluster
from apportion.errors import InputError
from apportion.experiments.machine.backends import Where
from apportion.experiments.machine.cells import Cell, Work
from apportion.experiments.machine.run import carry_out
from apportion.experiments.machine.store import Store
from apportion.policies.auditing.case import TELLING, worst_first
from apportion.sim import simulate
from apportion.sim.deciders import get_decider
from apportion.sim.run import ALONE_ON_GPUS, Run
from apportion.sim.settings import settings_for
from apportion.sim.workload_tables import by_arrival_and_id, present_types

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

    from apportion.mechanism.own import Decides
    from apportion.mechanisms import Mechanism
    from apportion.mechanisms.setting_names import SimulationSettings
    from apportion.sim.deciders import AnyDecider
    from apportion.sim.elastic_workload import ElasticWorkload
    from apportion.sim.workload import Workload
    from apportion.types import Floats


_COLUMNS = ["about", "accelerator", "factor", "ratio", "jct_s", "lied_jct_s", "others_lost_s"]


@dataclass(frozen=True, repr=False, eq=False)
class Lies:
    """What `apportion.try_lies` returns.

    Attributes
    ----------
    run
        In which all tell the truth.
    table
        A row for each lie that was tried, the best first: ``job``, or whatever groups are called,
        says `about` something that it is `factor` times as large. Its completion time is ``jct_s``
        if it tells the truth and ``lied_jct_s`` if it lies, seconds (the mean, of a group), and
        ``ratio`` the one over the other: above 1 the lie pays. ``others_lost_s`` is by how much
        all others are done later, on average.
    family
        Number of lies that there are.
    """

    run: Run
    table: pd.DataFrame
    family: int

    @property
    def pay(self) -> pd.DataFrame:
        """Return the rows of `table` that bring something."""
        return self.table[self.table["ratio"] > 1 + TELLING]

    @property
    def told(self) -> str:
        """Return the best lie in words."""
        tried, pay = len(self.table), self.pay
        if not len(pay):
            return f"no lie of {tried} tried helped"
        who, about, kind, factor, _, jct_s, lied_s, lost_s = next(pay.itertuples(index=False))
        others = f"{abs(lost_s) / 3600:.3g} h {'later' if lost_s >= 0 else 'sooner'}"
        return (
            f"of {tried} lies {len(pay)} pay, the best: {who!r} says "
            f"{Lie(who, (), about, kind, factor)}, and takes {lied_s / 3600:.3g} h in place of "
            f"{jct_s / 3600:.3g} h; the others take {others} on average"
        )

    def __repr__(self) -> str:
        return (
            f"Lies in the run of {self.run.policy}: {len(self.table)} of {self.family} tried, each "
            f"a simulation with the same seed\n{self.told}"
        )


@checked
def try_lies(
    policy: str | AnyDecider | Decides,
    workload: Workload | ElasticWorkload,
    cluster: Cluster | Mapping[str, int] | str,
    *,
    mechanism: Mechanism | str | None = None,
    lies: int = 40,
    by: str | None = None,
    seed: int = 0,
    n_jobs: int | None = None,
    progress: bool | None = None,
    **settings: Unpack[SimulationSettings],
) -> Lies:
    """Simulate a run again and again, in each of which one job says something that is not so.

    What it says is known to whoever decides; how fast it really is, and how much it has to do,
    stays as it is, as do all other jobs and the seed. The family of lies
    (`apportion.answers.one_lie.FAMILY`): steps/s on one type, steps to do, weight, and number of
    GPUs, of which those beside its own are held and idle. Arrivals are seen by all, and a job that
    asks for fewer GPUs runs on fewer: these are no lies. Under a network steps are of a size, and
    only speeds and weights are lied about. The first lies are all those of the job that waited
    longest; the others are drawn.

    Parameters
    ----------
    policy, workload, cluster, mechanism, **settings
        As for `apportion.simulate`.
    lies
        How many are tried, each a simulation; all that there are, if they are fewer.
    by
        A column of the jobs: all jobs of one value of it lie together, and gain together.
    seed
        Of the run, and of which lies are drawn.
    n_jobs, progress
        As for `apportion.compare`.

    Raises
    ------
    InputError
        For elastic jobs, jobs that share GPUs, speeds that nobody is told, a column that there is
        not, and as `apportion.simulate`.
    """
    whole("lies", lies, 1)
    decider = get_decider(policy, elastic=workload.elastic)
    if workload.elastic:
        raise InputError("Lies are tried of jobs whose gangs have one size; these are elastic.")
    how, known = settings_for([decider], mechanism, {**settings, "seed": seed}, elastic=False)
    if how.name not in ALONE_ON_GPUS or getattr(decider, "space_sharing", False):
        raise InputError(
            f"Lies are tried of jobs with GPUs to themselves; under {decider.label!r} by the "
            f"mechanism {how.name!r} they may share them."
        )
    if known.get("speeds", "told") != "told":
        raise InputError(f"Nobody is told speeds with speeds={known['speeds']!r}: leave it out.")
    if by is not None and by not in workload.jobs:
        there = ", ".join(map(str, workload.jobs))
        raise InputError(f"by={by!r} is no column of the jobs. Valid: {there}.")
    cluster = present_types(Cluster.of(cluster))
    run = simulate(decider, workload, cluster, mechanism=mechanism, seed=seed, **settings)
    workload = by_arrival_and_id(workload.in_steps(cluster))
    family = family_of(workload, cluster, by, on_links=known.get("network") is not None)
    chosen = _chosen(family, run, lies, seed)
    shared = Situation(decider, workload, cluster, how, known)
    cells = [Cell({"lie": str(n)}, str(n), lie) for n, lie in enumerate(chosen)]
    work = Work(lived, shared, lambda _cell, _jct_s: {}, lambda _cell, _record: None)
    where = Where(None, None, n_jobs)
    outcome = carry_out(cells, work, Store(None), where, progress=progress)
    for failure in outcome.failures.values():
        raise failure.error("A run with a lie failed: ") from failure.cause()
    true_s = run.jobs["jct_s"]
    rows = [_row(lie, true_s, outcome.results[str(n)]) for n, lie in enumerate(chosen)]
    return Lies(run, worst_first(rows, [by or "job", *_COLUMNS]), len(family))


def _chosen(family: list[Lie], run: Run, lies: int, seed: int) -> list[Lie]:
    """Return each kind of lie of whoever waited longest, then others at random."""
    if lies >= len(family):
        return family
    waits = run.jobs["queueing_s"]
    groups = {lie.who: list(lie.jobs) for lie in family}
    longest = max(groups, key=lambda who: float(waits[waits.index.isin(groups[who])].mean()))
    first = [lie for lie in family if lie.who == longest][:lies]
    rest = [lie for lie in family if lie.who != longest]
    drawn = np.random.default_rng(seed).permutation(len(rest))[: lies - len(first)]
    return first + [rest[place] for place in sorted(drawn.tolist())]


def _row(lie: Lie, true_s: pd.Series, lied_s: pd.Series) -> tuple[object, ...]:
    mine = true_s.index.isin(lie.jobs)
    before, after = true_s.to_numpy(dtype=float), lied_s.loc[true_s.index].to_numpy(dtype=float)
    others = _mean((after - before)[~mine]) if not mine.all() else 0.0
    before_s, after_s = _mean(before[mine]), _mean(after[mine])
    what = lie.about, lie.accelerator, lie.factor
    return (lie.who, *what, before_s / after_s, before_s, after_s, others)


def _mean(values: Floats) -> float:
    """Return the mean, which the order of the jobs does not change."""
    return math.fsum(values) / len(values)
