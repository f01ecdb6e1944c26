"""Run several policies and schedulers on one workload, in parallel; finished runs are kept."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any, Literal, Unpack

from apportion.annotations import checked
from apportion.checks import file_path, listed
from apportion.cluster import Cluster
from apportion.errors import ApportionError, InputError, SolveError
from apportion.experiments.comparisons.comparison import Comparison
from apportion.experiments.fitted_jobs import fitted
from apportion.experiments.machine.backends import Where
from apportion.experiments.machine.run import carry_out
from apportion.experiments.machine.store import FILE, Store
from apportion.experiments.plan import Plan, check_jobs_on, deciders_of, simulations_of
from apportion.experiments.provenance import command_line
from apportion.experiments.shared import costs_of_starts, settings_of, without
from apportion.experiments.simulations import Setup, runs_of
from apportion.experiments.sources import sources_of
from apportion.sim.traces.recorded_times import recorded_times

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from apportion.experiments.machine.cells import Failure
    from apportion.experiments.machine.run import Outcome
    from apportion.experiments.shared import ByPolicy
    from apportion.mechanism.own import Decides
    from apportion.mechanisms import Mechanism
    from apportion.mechanisms.setting_names import ComparisonSettings
    from apportion.pairs import PairThroughputs
    from apportion.sim import ElasticWorkload, Run, Workload
    from apportion.sim.deciders import AnyDecider

FOLDER = ".partial"
"""Folder of the finished runs of an unfinished comparison, inside its output folder."""


@checked
def compare(
    policies: Iterable[str | AnyDecider | Decides],
    workload: Workload | ElasticWorkload,
    cluster: Cluster | Mapping[str, int] | str,
    *,
    mechanism: Mechanism | str | None = None,
    pair_estimates: PairThroughputs | None = None,
    seed: int = 0,
    start_costs: Sequence[float] | Literal["usual"] = (),
    backend: str | None = None,
    address: str | None = None,
    n_jobs: int | None = None,
    out: str | Path | None = None,
    resume: bool = True,
    raise_on_failure: bool = True,
    progress: bool | None = None,
    origin: Mapping[str, object] | None = None,
    **settings: Unpack[ComparisonSettings],
) -> Comparison:
    """Simulate several policies and schedulers on the same workload, side by side.

    With no mechanism named each runs by its own: policies by rounds, or by leases with a scheduler
    among them that offers GPUs, as they then share out time over the tiers of the racks. A setting
    goes to all whose mechanism heeds it, and must be heeded by one.

    Results do not depend on `backend` and `n_jobs`.

    Parameters
    ----------
    policies
        Names (`apportion.policy_table`, `apportion.scheduler_table`) or policy and scheduler
        objects, each once.
    workload, cluster
        What to run and where. Elastic jobs run by ``mechanism="configurations"``.
    mechanism, pair_estimates, seed
        As for `apportion.simulate`, the same for all. Whoever does not work by a mechanism that is
        named is refused. Where nobody says what a start costs
        (``preemption_overhead_seconds``), it is ``"measured"``, and not 0, see
        `apportion.mechanisms.start_costs`.
    start_costs
        Also simulate everything with starts that cost so many times as much, such as ``[0, 5]``,
        for `Comparison.start_costs`. ``"usual"`` is that for up to 250 jobs, as far as it says
        something.
    backend, address, n_jobs
        Where it is computed, as for `apportion.sweep`. One job at once runs in this process.
    out
        Folder for the files of `Comparison.save`: ``summary.csv``, ``jobs.csv``,
        ``schedule.csv.gz``, ``run.json`` and ``report.html``. Finished runs are kept in it until
        the comparison is complete.
    resume
        Take finished runs of the same comparison from `out` instead of running them again. They
        are plain text with a checksum; what is damaged is run again.
    raise_on_failure
        Whether a policy that fails is an error in the end. If not, its row of the summary has no
        figures but its ``error``. The others run, and are saved, either way.
    progress
        Show one progress bar; None shows it on terminals where rich is installed.
    origin
        How the workload was made, kept in ``run.json``: options of ``apportion compare``, such as
        ``{"workload": "trace.csv", "seed": 0}``.
    **settings
        Settings of the mechanism by name, ``learn_pairs`` and ``record_prices``, as for
        `apportion.simulate`; schedulers among the policies have no prices.

    Returns
    -------
    Comparison
        One run per policy, in the order asked for, and the errors of those that failed.

    Raises
    ------
    InputError
        Before anything runs: for unknown or repeated policies, jobs that do not fit the cluster,
        or a folder that cannot be written.
    ApportionError
        After everything else has run: if a policy failed and `raise_on_failure`, or if all failed.
        The other runs are in `out`. Or if a worker process died; finished runs are kept in `out`.
    """
    given = listed("policies", policies, "a list of names")
    chosen = deciders_of(given, [workload])
    cluster = Cluster.of(cluster)
    workload = fitted(workload, cluster, "error")
    check_jobs_on(workload, cluster)
    for each in chosen:
        if getattr(each, "replays", False) and workload.elastic is False:
            recorded_times(each.label, workload, cluster)
    told = {**settings, "pair_estimates": pair_estimates, "seed": seed}
    known, by_policy = settings_of(chosen, [workload], mechanism, told)
    where = Where(backend, address, n_jobs)
    plan = _plan(chosen, workload, cluster, known, by_policy, start_costs)
    folder = None if out is None else file_path("out", out)
    partial = None if folder is None else folder / FOLDER
    store = Store(None if partial is None else partial / FILE)
    store.open(resume=resume)
    outcome = carry_out(plan.cells, runs_of(plan.setup), store, where, progress=progress)
    runs, failures = outcome.by("policy", [cell for cell in plan.cells if cell.task.starts == 1])
    command = None
    own = _own(given, pair_estimates, known)
    if origin is not None and not own:
        command = command_line([each.label for each in chosen], cluster, known, origin)
    errors = {label: str(failure) for label, failure in failures.items()}
    comparison = Comparison(
        *(runs, workload, cluster, known, origin, command, errors, own, by_policy),
        _at_other_costs(outcome, plan),
    )
    if folder is not None and runs:
        comparison.save(folder)
    if partial is not None and not (failures and store.finished()) and not store.others():
        shutil.rmtree(partial, ignore_errors=True)
    if failures and (raise_on_failure or not runs):
        raise _failure(failures, len(chosen)) from next(iter(failures.values())).cause()
    return comparison


def _own(
    policies: Iterable[object], pair_estimates: object, settings: Mapping[str, Any]
) -> list[str]:
    """Return the names of what was given as objects and not as texts."""
    named = ("mechanism", "network", "order", "gate", "sharing", "serving")
    given = {"policies": policies, "pair_estimates": [pair_estimates]}
    given |= {name: [settings.get(name)] for name in named}
    return [
        name
        for name, values in given.items()
        if any(not isinstance(value, str | None) for value in values)
    ]


def _plan(
    deciders: Sequence[AnyDecider],
    workload: Workload | ElasticWorkload,
    cluster: Cluster,
    settings: Mapping[str, Any],
    by_policy: ByPolicy,
    times: Sequence[float] | str,
) -> Plan:
    """Plan one simulation per policy or scheduler, and one for each other cost of a start."""
    (source,) = sources_of([workload], too_large="error")
    shared, each = without(("seed",), settings, by_policy)
    costs = costs_of_starts(each.values() or [shared], times, workload.jobs)
    setup = Setup({source.name: source}, cluster, shared, by_policy=each, starts=costs)
    cells = [
        cell
        for starts in (1.0, *costs)
        for cell in simulations_of(source, deciders, setup, [1.0], [settings["seed"]], starts)
    ]
    return Plan(tuple(cells), setup, workload.notes)


def _at_other_costs(outcome: Outcome, plan: Plan) -> dict[float, dict[str, Run]]:
    """Return the runs where a start costs some times as much, by these times and by policy."""
    found: dict[float, dict[str, Run]] = {}
    for starts in plan.setup.starts:
        runs, _ = outcome.by("policy", [each for each in plan.cells if each.task.starts == starts])
        found[starts] = runs
    return found


def _failure(failures: Mapping[str, Failure], policies: int) -> ApportionError:
    """Make one error of those of all failed policies, each named."""
    first, *others = failures.values()
    if policies > 1 and len(failures) == policies and {*map(str, others)} == {str(first)}:
        # Every policy stumbles over the same setting: it is not the policies.
        return first.error()
    made = [each.error(f"Policy {label!r} failed: ") for label, each in failures.items()]
    text = " ".join(map(str, made))
    for kind in (InputError, SolveError):
        if any(isinstance(each, kind) for each in made):
            return kind(text)
    return ApportionError(text)
