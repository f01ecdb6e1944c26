"""Run several policies and schedulers on one workload, in parallel and resumable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apportion.checks import file_path, listed, whole
from apportion.cluster import Cluster
from apportion.errors import ApportionError, InputError, SolveError
from apportion.experiments.comparisons.comparison import Comparison
from apportion.experiments.comparisons.parallel import Task, run_tasks
from apportion.experiments.comparisons.unfinished import Unfinished
from apportion.experiments.fingerprint import run_fingerprint, workload_fingerprint
from apportion.experiments.provenance import command_line
from apportion.kinds import checked
from apportion.sim.deciders import get_decider
from apportion.sim.settings import settings_for

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from apportion.pairs import PairThroughputs
    from apportion.sim import Workload
    from apportion.sim.deciders import Decider
    from apportion.sim.network import NetworkModel
    from apportion.sim.settings import Mechanism

__all__ = ["compare"]


@checked
def compare(
    policies: Iterable[str | Decider],
    workload: Workload,
    cluster: Cluster | Mapping[str, int] | str,
    *,
    mechanism: Mechanism | None = None,
    round_seconds: float | None = None,
    resolve_seconds: float | None = None,
    preemption_overhead_seconds: float | None = None,
    placement: str | None = None,
    placement_sensitive: bool | None = None,
    pair_estimates: PairThroughputs | None = None,
    learn_pairs: bool | None = None,
    carry_over: bool | None = None,
    leases: bool | None = None,
    network: str | NetworkModel | None = None,
    lease_seconds: float | None = None,
    checkpoint_seconds_per_gpu: float | None = None,
    seed: int = 0,
    n_jobs: int | None = None,
    out: str | Path | None = None,
    resume: bool = True,
    raise_on_failure: bool = True,
    progress: bool | None = None,
    origin: Mapping[str, object] | None = None,
) -> Comparison:
    """Simulate several policies and schedulers on the same workload, side by side.

    All run by the same mechanism. With a scheduler among them that is ``"leases"``: policies then
    share out time over the tiers of the racks, and settings of rounds are refused.

    Results do not depend on `n_jobs`. Runs go to worker processes through joblib; inside
    ``joblib.parallel_config(backend=...)`` they go to that back end instead, e.g. Dask or Ray.

    Parameters
    ----------
    policies
        Names (`apportion.policy_table`, `apportion.scheduler_table`) or policy and scheduler
        objects, each once.
    workload, cluster
        What to run and where.
    mechanism, round_seconds, resolve_seconds, preemption_overhead_seconds, placement, \
    placement_sensitive, pair_estimates, learn_pairs, carry_over, leases, network, lease_seconds, \
    checkpoint_seconds_per_gpu, seed
        Settings of `apportion.simulate`, the same for all.
    n_jobs
        Processes at once; None for one per processor. 1 runs in this process.
    out
        Folder for ``summary.csv``, ``jobs.csv``, ``run.json`` and ``report.html``. Finished runs
        are kept in it until the comparison is complete.
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
    given = _listed(policies)
    chosen = _checked_policies(given)
    cluster = Cluster.of(cluster)
    workload.throughput_of(cluster)
    told = {
        "round_seconds": round_seconds,
        "resolve_seconds": resolve_seconds,
        "preemption_overhead_seconds": preemption_overhead_seconds,
        "placement": placement,
        "placement_sensitive": placement_sensitive,
        "pair_estimates": pair_estimates,
        "learn_pairs": learn_pairs,
        "carry_over": carry_over,
        "leases": leases,
        "network": network,
        "lease_seconds": lease_seconds,
        "checkpoint_seconds_per_gpu": checkpoint_seconds_per_gpu,
        "seed": seed,
    }
    settings = settings_for(chosen.values(), mechanism, told)
    settings = {name: settings[name] for name in ["mechanism", *told] if name in settings}
    if n_jobs is not None:
        whole("n_jobs", n_jobs, 1)
    store = Unfinished(None if out is None else file_path("out", out), resume=resume)
    tasks = _tasks(chosen, workload, cluster, settings)
    runs, errors = run_tasks(tasks, store, n_jobs=n_jobs, progress=progress)
    command = None
    spoken = all(isinstance(each, str) for each in [*given, network or ""])
    if origin is not None and spoken and pair_estimates is None:
        command = command_line(list(chosen), cluster, settings, origin)
    texts = {label: str(error) for label, error in errors.items()}
    comparison = Comparison(runs, workload, cluster, settings, origin, command, texts)
    if out is not None and runs:
        comparison.save(out)
    store.close(finished=not errors)
    if errors and (raise_on_failure or not runs):
        raise _failure(errors, len(chosen)) from next(iter(errors.values()))
    return comparison


def _listed(policies: Iterable[str | Decider]) -> list[str | Decider]:
    """Make a list, but not of the letters of one name."""
    return listed("policies", policies, "a list of names")


def _tasks(
    policies: Mapping[str, Decider],
    workload: Workload,
    cluster: Cluster,
    settings: Mapping[str, Any],
) -> list[Task]:
    """Make one task per policy, each with the fingerprint under which its run is kept."""
    mark = workload_fingerprint(workload)
    return [
        Task(policy, workload, cluster, settings, run_fingerprint(policy, mark, cluster, settings))
        for policy in policies.values()
    ]


def _checked_policies(policies: Sequence[str | Decider]) -> dict[str, Decider]:
    """Look up every policy and scheduler, by label; refuse an empty list and repetitions."""
    if not policies:
        raise InputError("There is no policy to compare: the list of policies is empty.")
    chosen: dict[str, Decider] = {}
    for given in policies:
        policy = get_decider(given)
        if policy.label in chosen:
            raise InputError(f"The policy {policy.label!r} is in the list twice.")
        chosen[policy.label] = policy
    return chosen


def _failure(errors: Mapping[str, ApportionError], policies: int) -> ApportionError:
    """Make one error of those of all failed policies, each named."""
    found = list(errors.values())
    texts = [f"Policy {label!r} failed: {error}" for label, error in errors.items()]
    if len({str(error) for error in found}) == 1 and len(found) == policies > 1:
        # Every policy stumbles over the same setting: it is not the policies.
        texts = [str(found[0])]
    for kind in (InputError, SolveError):
        if any(isinstance(error, kind) for error in found):
            return kind(" ".join(texts))
    return ApportionError(" ".join(texts))
