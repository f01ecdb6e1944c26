"""`carried_on`: a run that begins in the middle, with jobs that run and jobs that wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import numpy as np

from apportion.errors import InputError
from apportion.mechanisms.past import Past, TakesOver
from apportion.sim.about import AboutRun
from apportion.sim.deciders import get_decider
from apportion.sim.engine import run as run_jobs
from apportion.sim.own_mechanism import watched
from apportion.sim.record import Record
from apportion.sim.settings import settings_for
from apportion.threads import one_thread

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from apportion.cluster import Cluster
    from apportion.mechanism.own import Decides
    from apportion.mechanisms.setting_names import SimulationSettings
    from apportion.sim.deciders import AnyDecider
    from apportion.sim.run import Run
    from apportion.sim.workload import Workload


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
    untold = scheduler.take_over(_past(about, now_s, running))
    record = Record(about, parts.columns)
    run_jobs(about.truth, scheduler, parts.runtime, record, begins=(now_s, untold))
    return record.run(decider.label, parts)


def _past(
    about: AboutRun, now_s: float, running: Mapping[Hashable, tuple[str, Sequence[int]]]
) -> Past:
    """Say who has which devices, and for how long others have waited."""
    kinds = {name: kind for kind, name in enumerate(about.present.accelerators)}
    place = {job: number for number, job in enumerate(about.truth.ids)}
    held = {(place[job],): (kinds[kind], list(devices)) for job, (kind, devices) in running.items()}
    count = about.truth.jobs
    here, running_on = np.zeros(count, dtype=bool), np.full(count, -1.0)
    for (job,), (kind, _) in held.items():
        here[job], running_on[job] = True, kind
    since_s = np.maximum(now_s - about.truth.arrival_s, 0.0)
    truth, had_s = about.truth, np.zeros(count)
    for (job,), (kind, _) in held.items():
        had_s[job] = (truth.total[job] - truth.remaining[job]) / truth.speed[job, kind]
        truth.held_s[job, kind] = had_s[job]
    return Past(
        now_s=now_s,
        held=dict(sorted(held.items())),
        stays=np.zeros(count, dtype=bool),
        waited_s=np.where(here, 0.0, since_s),
        running_on=running_on,
        alone_s=had_s,
        owed_s=np.zeros((count, len(kinds))),
        owed_by_pair={},
        gpu_s=had_s * truth.scale,
        most_gpus=np.where(here, truth.scale, 0).astype(np.intp),
        restarts=np.zeros(count, dtype=np.intp),
    )
