"""`sweep`: every policy on every workload at every load with every seed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Unpack

from apportion.annotations import checked
from apportion.checks import file_path
from apportion.experiments.machine.backends import Where
from apportion.experiments.machine.run import carry_out
from apportion.experiments.machine.store import FILE, Store
from apportion.experiments.simulations import figures_of
from apportion.experiments.sweeps.plan import plan_sweep
from apportion.experiments.sweeps.result import Sweep
from apportion.report.files import check_format

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from apportion.experiments.machine.cells import Cell
    from apportion.experiments.machine.run import Outcome
    from apportion.experiments.plan import Plan
    from apportion.experiments.sweeps.plan import Clusters
    from apportion.mechanism.own import Decides
    from apportion.mechanisms.setting_names import SweepSettings
    from apportion.sim.deciders import AnyDecider


@checked
def sweep(
    policies: Iterable[str | AnyDecider | Decides],
    workloads: Any,
    cluster: Clusters,
    *,
    loads: Sequence[float] = (1.0,),
    seeds: Sequence[int] = (0,),
    resample: bool | Literal["blocks"] = False,
    by: str | None = None,
    backend: str | None = None,
    address: str | None = None,
    n_jobs: int | None = None,
    out: str | Path | None = None,
    format: str = "csv",
    resume: bool = True,
    raise_on_failure: bool = False,
    progress: bool | None = None,
    **settings: Unpack[SweepSettings],
) -> Sweep:
    """Simulate every policy on every workload at every load with every seed.

    The table does not depend on `backend` and `n_jobs`, but for the measured seconds. A run that
    fails is a row with its error, and the others go on.

    Parameters
    ----------
    policies
        Names (`apportion.policy_table`, `apportion.scheduler_table`), policies or schedulers, each
        once.
    workloads
        One, or a list, of: a `Workload` or an `ElasticWorkload`; the path of a trace; a mapping
        with the key ``path``, arguments of `apportion.read_workload`, or, for elastic jobs, of
        `apportion.read_elastic_workload`; a mapping without, arguments of
        `apportion.generate_workload`, or of `apportion.generate_rack_workload` if it holds
        ``kind="racks"``, of `apportion.generate_elastic_workload` if it holds ``kind="elastic"``.
        Workloads are all elastic, or none is. Mappings may also hold ``name``, for tables,
        ``too_large`` (``drop`` or ``error``): jobs with more GPUs than any type of the cluster
        has are dropped from traces that tell no job types, and elsewhere are an error; and
        ``speed``, as `Workload.on` takes it.
    cluster
        A `Cluster`, a mapping of GPU counts, or text such as ``"v100=8,k80=16"``; or several in a
        list, ``["a100=16", "a100=24"]``: then each policy runs the same jobs on each, and tables
        have a column ``cluster``. Jobs that one of them cannot hold are left out on all.
    loads
        Factors of the arrival rate. Arrival times of traces and of a `Workload` are divided by it,
        ``jobs_per_hour`` of generated workloads is multiplied by it, their ``days`` or ``span_s``
        divided; the jobs stay the same. Where all jobs arrive at once, only 1 is valid.
    seeds
        Of all that is random: job types of traces that do not tell them, generated workloads,
        random placement, and `resample`.
    resample
        Draw the jobs of each workload anew from its jobs, with replacement, arrivals kept;
        ``"blocks"`` draws stretches of jobs, each with the time since the one before it
        (`apportion.resample`).
    by
        A column of the jobs, such as ``"user"``, for `Sweep.by`.
    backend
        ``processes``, ``ray`` or ``dask``. None is the back end of joblib that is active:
        ``processes``, unless the call stands in ``joblib.parallel_config(backend=...)``.
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
    raise_on_failure
        Whether a run that fails is an error in the end. The others run, and are saved, either way.
    progress
        Show one progress bar; None shows it on terminals where rich is installed.
    **settings
        Settings of `apportion.simulate`, the same for every run, as for `apportion.compare`; not
        ``seed``, ``progress`` and ``pair_estimates``.

    Returns
    -------
    Sweep
        One row per run.

    Raises
    ------
    InputError
        Before anything runs: for what cannot be used, with the option named.
    ApportionError
        After everything else has run: if a run failed and `raise_on_failure`. Or if a back end
        cannot be had, or a worker process died; what is finished is kept.
    """
    where = Where(backend, address, n_jobs)
    check_format(format)
    plan = plan_sweep(
        policies, workloads, cluster, loads=loads, seeds=seeds, resample=resample, by=by, **settings
    )
    return carried_out(
        plan,
        where,
        out=out,
        format=format,
        resume=resume,
        raise_on_failure=raise_on_failure,
        progress=progress,
    )


def carried_out(
    plan: Plan,
    where: Where,
    *,
    out: str | Path | None = None,
    format: str = "csv",
    resume: bool = True,
    raise_on_failure: bool = False,
    progress: bool | None = None,
) -> Sweep:
    """Carry out what is planned; parameters are those of `sweep`.

    Raises
    ------
    InputError, ApportionError
        As `sweep`.
    """
    folder = None if out is None else file_path("out", out)
    store = Store(None if folder is None else folder / FILE)
    store.open(resume=resume)
    outcome = carry_out(plan.cells, figures_of(plan.setup), store, where, progress=progress)
    ways = {name: {"mechanism": own["mechanism"]} for name, own in plan.setup.by_policy.items()}
    rows = tuple(
        {**cell.label, **ways.get(cell.label["policy"], {}), **_row(cell, outcome)}
        for cell in plan.cells
    )
    swept = Sweep(rows, plan, resumed=outcome.resumed)
    if out is not None:
        swept.save(out, format=format)
    failure = swept.failure()
    if raise_on_failure and failure is not None:
        raise failure from next(iter(outcome.failures.values())).cause()
    return swept


def _row(cell: Cell, outcome: Outcome) -> dict[str, Any]:
    """Return the figures of a run, or its error."""
    if cell.fingerprint in outcome.failures:
        return {"error": str(outcome.failures[cell.fingerprint])}
    return {**outcome.results[cell.fingerprint], "error": None}
