"""`simulate`: one policy or scheduler, one workload, one cluster."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Unpack

import numpy as np

from apportion.annotations import checked
from apportion.cluster import Cluster
from apportion.errors import InputError, SolveError
from apportion.mechanisms.past import Past, TakesOver
from apportion.sim.about import AboutRun
from apportion.sim.deciders import get_decider
from apportion.sim.engine import run as run_jobs
from apportion.sim.iteration_times import iterations_on_links
from apportion.sim.own_mechanism import watched
from apportion.sim.record import Progress, Record
from apportion.sim.settings import charged, settings_for
from apportion.sim.solves.standing import Solves
from apportion.threads import one_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from apportion.mechanism.own import Decides
    from apportion.mechanisms import Mechanism
    from apportion.mechanisms.setting_names import SimulationSettings
    from apportion.pairs import PairThroughputs
    from apportion.sim.beliefs import Beliefs
    from apportion.sim.deciders import AnyDecider
    from apportion.sim.elastic_workload import ElasticWorkload
    from apportion.sim.run import Run
    from apportion.sim.workload import Workload


@one_thread
@checked
def simulate(
    policy: str | AnyDecider | Decides,
    workload: Workload | ElasticWorkload,
    cluster: Cluster | Mapping[str, int] | str,
    *,
    mechanism: Mechanism | str | None = None,
    pair_estimates: PairThroughputs | None = None,
    learn_pairs: bool | None = None,
    record_prices: bool | None = None,
    seed: int = 0,
    beliefs: Beliefs | None = None,
    progress: Callable[[float, int], None] | None = None,
    **settings: Unpack[SimulationSettings],
) -> Run:
    """Run a workload under a policy or a scheduler until every job is complete.

    Parameters
    ----------
    policy
        A policy (`apportion.policy_table`), a scheduler (`apportion.scheduler_table`), or the name
        of one; or anything that decides as `apportion.mechanism.scheduler.Scheduler` does.
    workload
        The jobs and their throughputs; or elastic jobs (`apportion.ElasticWorkload`), which may
        hold any number of GPUs.
    cluster
        A `Cluster`, a mapping of GPU counts, or text such as ``"v100=8,k80=16"``.
    mechanism
        How decisions are carried out: `apportion.Rounds`, the default for policies,
        `apportion.Exact`; `apportion.Leases`, for policies too and the only one for schedulers that
        offer GPUs; `apportion.Queue`, the only one for an `apportion.QueueScheduler`, and the
        default for whatever decides by itself, which works by these, too, but rounds:
        `apportion.Iterations`, the only one for an `apportion.GatedScheduler`; or
        `apportion.Configurations`, the only one for elastic jobs. Their names ``"rounds"``,
        ``"exact"``, ``"leases"``, ``"queue"``, ``"iterations"`` and ``"configurations"`` stand for
        them with the `settings`. Or one of your own: anything that has ``parts(decider, about)``
        (`apportion.mechanisms.Mechanism`), or its name in `apportion.mechanisms.MECHANISMS`.
    pair_estimates
        What a policy with space sharing is told of pairs (see `apportion.estimators`), while the
        workload's own pair throughputs decide how fast they run.
    learn_pairs
        Whether it is told the truth of a pair once the pair has run on a type; no by default.
    record_prices
        Whether `Run.prices` are kept, what one more GPU of each type would have been worth to the
        policy each time it was asked; no by default, as the least of the prices that are right take
        some time to find. It changes nothing else. For policies.
    seed
        Seed of placements at random.
    beliefs
        What policies, and the priorities of the mechanism, are told of speeds: ``Told()``, the
        truth, which is the default; ``Agnostic()``, that every type is alike; ``Estimated()``, what
        was learnt from references and from what has run; see `apportion.sim.beliefs` and
        `apportion.sim.beliefs.estimated`. How fast jobs really are it does not change. In place of
        a value ``speeds="told"``, ``"agnostic"`` or ``"estimated"``, the latter with
        ``references=12``, ``optimism=1.0`` and ``rows="job"``, may stand among the settings.
        Schedulers that offer GPUs or work in a queue ask for no speeds.
    progress
        Called with (fraction done, jobs done) a few times per second at most.
    **settings
        Settings of the mechanism by name, in place of a value: ``round_seconds=60`` is
        ``Rounds(seconds=60)``, ``lease_seconds=60`` is ``Leases(seconds=60)``; the others are
        called as in the value. None says that one is not given. A setting that the mechanism would
        not heed is an error, whatever its value. Starts cost what was measured, as in
        `apportion.compare`, unless ``preemption_overhead_seconds`` says another cost or none.

    Raises
    ------
    InputError
        If a setting or a name is wrong, or a job cannot run on the cluster.
    SolveError
        If the policy fails; a note tells which and when.
    """
    started = time.perf_counter()
    cluster, elastic = Cluster.of(cluster), workload.elastic
    decider = get_decider(policy, elastic=elastic)
    told = {**settings, "pair_estimates": pair_estimates, "learn_pairs": learn_pairs}
    told |= {"record_prices": record_prices, "seed": seed}
    told = charged([decider], mechanism, told, elastic=elastic)
    chosen, known = settings_for([decider], mechanism, told, elastic=elastic)
    about = AboutRun.of(workload, cluster, chosen, known, beliefs)
    parts = watched(chosen, decider, about)
    about.check_heeded(decider.label)
    columns = [*parts.columns, *iterations_on_links(about, parts.runtime)]
    asked = parts.asked if isinstance(parts.asked, Solves) else None
    if about.settings.get("record_prices"):
        if asked is None:
            raise InputError(f"record_prices=True is for policies; {decider.label!r} is none.")
        asked.keep_prices()
    record = Record(about, columns, Progress(progress))
    try:
        run_jobs(about.truth, parts.scheduler, parts.runtime, record)
    except SolveError as error:
        why = "" if asked is None else asked.why_none()
        error.args = (" ".join(filter(None, (str(error), why))),)
        raise
    run = record.run(decider.label, parts)
    if asked is not None and asked.prices is not None:
        prices = asked.price_table(about.cluster.accelerators)
        run = replace(run, tables={**run.tables, "prices": prices})
    return replace(run, wall_seconds=time.perf_counter() - started)


@one_thread
def carried_on(
    policy: str | AnyDecider | Decides,
    workload: Workload,
    cluster: Cluster,
    now_s: float,
    running: Mapping[Hashable, tuple[str, Sequence[int]]],
    *,
    seed: int = 0,
    **settings: Unpack[SimulationSettings],
) -> Run:
    """Run jobs to their end from the middle on, as `apportion.simulate` from the beginning.

    Parameters
    ----------
    policy, cluster, seed, settings
        As for `apportion.simulate`.
    workload
        Who arrived by `now_s` is there, with ``steps_remaining`` still to do; others come later.
    now_s
        When the run begins, seconds.
    running
        Accelerator and devices of the jobs that have some, as `apportion.solve_round` takes them.
        They have had them for as long as what is done of their steps takes; who has none has
        waited since it arrived.

    Raises
    ------
    InputError
        For a scheduler that cannot begin in the middle, and as `apportion.simulate`.
    SolveError
        If the policy fails.
    """
    decider = get_decider(policy)
    mechanism, known = settings_for([decider], None, {**settings, "seed": seed}, elastic=False)
    about = AboutRun.of(workload, cluster, mechanism, known)
    parts = watched(mechanism, decider, about)
    about.check_heeded(decider.label)
    scheduler = parts.scheduler
    if not isinstance(scheduler, TakesOver):
        raise InputError(
            f"{decider.label!r} cannot begin in the middle: it has no take_over(past)."
        )
    about.truth.admit(now_s)
    past = _past(about, now_s, running)
    untold = scheduler.take_over(past)
    record = Record(about, parts.columns)
    record.begin(past)
    run_jobs(about.truth, scheduler, parts.runtime, record, begins=(now_s, untold))
    return record.run(decider.label, parts)


def _past(
    about: AboutRun, now_s: float, running: Mapping[Hashable, tuple[str, Sequence[int]]]
) -> Past:
    """Say who has which devices, and for how long others have waited."""
    kinds = {name: kind for kind, name in enumerate(about.present.accelerators)}
    place = {job: number for number, job in enumerate(about.truth.ids)}
    held = {place[job]: (kinds[kind], list(devices)) for job, (kind, devices) in running.items()}
    count = about.truth.jobs
    here, running_on = np.zeros(count, dtype=bool), np.full(count, -1.0)
    for job, (kind, _) in held.items():
        here[job], running_on[job] = True, kind
    since_s = np.maximum(now_s - about.truth.arrival_s, 0.0)
    truth = about.truth
    for job, (kind, _) in held.items():
        done = truth.total[job] - truth.remaining[job]
        truth.held_s[job, kind] = done / truth.speed[job, kind]
    return Past(
        now_s=now_s,
        held=dict(sorted(held.items())),
        stays=np.zeros(count, dtype=bool),
        waited_s=np.where(here, 0.0, since_s),
        running_on=running_on,
        owed_s=np.zeros((count, len(kinds))),
    )
