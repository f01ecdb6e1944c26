"""`sweep`: every policy on every workload at every load with every seed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from apportion.checks import file_path
from apportion.experiments.machine.backends import check_backend
from apportion.experiments.machine.store import RunLog
from apportion.experiments.sweeps.execute import run_in_workers
from apportion.experiments.sweeps.plan import plan_sweep
from apportion.experiments.sweeps.result import Sweep
from apportion.kinds import checked
from apportion.report.files import check_format

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from apportion.cluster import Cluster
    from apportion.sim.deciders import Decider

__all__ = ["sweep"]

logger = logging.getLogger(__name__)


@checked
def sweep(
    policies: Iterable[str | Decider],
    workloads: Any,
    cluster: Cluster | Mapping[str, int] | str,
    *,
    loads: Sequence[float] = (1.0,),
    seeds: Sequence[int] = (0,),
    resample: bool = False,
    backend: str = "processes",
    address: str | None = None,
    n_jobs: int | None = None,
    out: str | Path | None = None,
    format: str = "csv",
    resume: bool = True,
    progress: bool | None = None,
    **settings: Any,
) -> Sweep:
    """Simulate every policy on every workload at every load with every seed.

    The table does not depend on `backend` and `n_jobs`, but for the measured seconds. A run that
    fails is a row with its error, and the others go on.

    Parameters
    ----------
    policies
        Names (`apportion.policy_table`, `apportion.scheduler_table`), policies or schedulers, each
        once; all by the same mechanism.
    workloads
        One, or a list, of: a `Workload`; the path of a trace; a mapping with the key ``path``,
        arguments of `apportion.read_workload`; a mapping without, arguments of
        `apportion.generate_workload`, or of `apportion.generate_rack_workload` if it holds
        ``kind="racks"``. Mappings may also hold ``name``, for tables, and
        ``too_large`` (``drop`` or ``error``): jobs with more GPUs than any type of the cluster
        has are dropped from traces that tell no job types, and elsewhere are an error.
    cluster
        A `Cluster`, a mapping of GPU counts, or text such as ``"v100=8,k80=16"``.
    loads
        Factors of the arrival rate. Arrival times of traces and of a `Workload` are divided by it,
        ``jobs_per_hour`` of generated workloads is multiplied by it, their ``days`` or ``span_s``
        divided; the jobs stay the same. Where all jobs arrive at once, only 1 is valid.
    seeds
        Of all that is random: job types of traces that do not tell them, generated workloads,
        random placement, and `resample`.
    resample
        Draw the jobs of each workload anew from its jobs, with replacement, arrivals kept.
    backend
        ``processes``, ``ray`` or ``dask``.
    address
        Of a running Ray or Dask cluster; None starts one on this machine and stops it at the end.
    n_jobs
        Runs at once; None for one per processor. A Dask cluster at an address decides itself.
    out
        Folder of the files of `Sweep.save`. Each finished run is at once a line of its
        ``runs.jsonl``.
    format
        Of the tables in `out`: ``csv`` or ``parquet``.
    resume
        Take finished runs from ``runs.jsonl`` instead of running them again. Failed ones are tried
        again.
    progress
        Show one progress bar; None shows it on terminals where rich is installed.
    **settings
        Settings of `apportion.simulate`, the same for every run; not ``seed``, ``progress`` and
        ``pair_estimates``.

    Returns
    -------
    Sweep
        One row per run.

    Raises
    ------
    InputError
        Before anything runs: for what cannot be used, with the option named.
    ApportionError
        If a back end cannot be had, or a worker process died; what is finished is kept.
    """
    check_backend(backend, address, n_jobs)
    check_format(format)
    plan = plan_sweep(
        policies, workloads, cluster, loads=loads, seeds=seeds, resample=resample, **settings
    )
    log = RunLog(None if out is None else file_path("out", out))
    log.open(resume=resume)
    finished = log.finished()
    todo = [run for run in plan.runs if run.fingerprint not in finished]
    logger.info("%d of %d runs were finished before.", len(plan.runs) - len(todo), len(plan.runs))
    found = finished | run_in_workers(
        todo, log, backend=backend, address=address, n_jobs=n_jobs, progress=progress
    )
    # The label last: a workload may have another name than when its run was finished.
    rows = tuple(found[run.fingerprint] | run.label for run in plan.runs)
    swept = Sweep(rows, plan, resumed=len(plan.runs) - len(todo))
    if out is not None:
        swept.save(out, format=format)
    return swept
