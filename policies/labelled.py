"""`solve`: labelled tables in, a labelled Allocation out."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from apportion.allocation import Allocation
from apportion.combination_rows import COMBINATION
from apportion.errors import InputError, written
from apportion.kinds import checked
from apportion.policies.labels import instance_of, jobs_of, pair_table
from apportion.policies.placements.tiers import GangPacking, pack_gangs, tiers_of_options
from apportion.policies.registry import get_policy
from apportion.policies.solving.driver import Solution, solve_instance
from apportion.policies.solving.rows.given_order import GivenOrder
from apportion.policies.solving.whole.valid import check_pins
from apportion.tensor import ThroughputTensor
from apportion.threads import one_thread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.cluster import Cluster
    from apportion.given import Jobs, Workers
    from apportion.pairs import PairThroughputs
    from apportion.policies.base import Policy
    from apportion.policies.instance import Instance
    from apportion.policies.resource import Resource
    from apportion.policies.solving.driver import Fallback
    from apportion.policies.solving.rows.pairs import PairTable
    from apportion.policies.solving.solvers.optimise import SolverName
    from apportion.tensor import Throughputs

__all__ = ["solve"]

_LOG = logging.getLogger(__name__)


@one_thread
@checked
def solve(
    policy: Policy | str,
    throughput_tensor: Throughputs,
    *,
    workers: Workers | None = None,
    jobs: Jobs | None = None,
    resources: Sequence[Resource] = (),
    pairs: PairThroughputs | None = None,
    gang_packing: bool = True,
    group: bool = True,
    intervals: bool = True,
    second_stage: bool = True,
    solver: SolverName = "auto",
    partitions: int = 1,
    seed: int = 0,
    fallback: Fallback = "raise",
    time_limit_s: float | None = None,
    gap: float = 1e-9,
) -> Allocation:
    """Decide what share of time every job gets under every option.

    Parameters
    ----------
    policy
        A `Policy`, or its name (``apportion policies`` lists them).
    throughput_tensor
        Steps/s of each job under each option: a `ThroughputTensor`, which can carry `workers` and
        `jobs`; a DataFrame, jobs by accelerator types (or columns ``(accelerator, tier)`` or
        ``(accelerator, gpus)``); a mapping of mappings; or an array, whose jobs are called 0 to
        n - 1. A job cannot run on a type of the workers that no throughput names.
    workers
        GPUs of each accelerator type: a `Cluster`, a mapping, or text such as ``"v100=8,k80=16"``;
        with an array also a list, whose types are called 0 to n - 1. Needed unless the tensor
        carries them; given here, they take the place of those.
    jobs
        What else is known of the jobs (columns of `JOB_COLUMNS`): a DataFrame with the ids of the
        tensor, in any order; or a dict of columns, each a list in the order of the tensor, a
        Series or mapping by job id, or one value for all. By default what the tensor carries;
        without that every job has weight 1 and one GPU.
    resources
        Resources beside the GPUs.
    pairs
        Steps/s of job types that share GPUs, for a policy with ``space_sharing=True``; the jobs
        table then has their ``job_type``. Rows of `X` for pairs are called ``"a + b"``.
    gang_packing
        Whether gangs must also pack into whole machines and racks, where the options are
        (accelerator, tier) with the tiers of `TIERS`; see `apportion.policies.placements.tiers`.
    group, intervals, second_stage, solver
        See `solve_instance`; the defaults are right for all but comparisons.
    partitions, seed, fallback
        See `solve_instance`: solve in parts, and what to do when every solver fails.
    time_limit_s, gap
        See `solve_instance`: how long to search for a whole decision, and how good it has to be.

    Raises
    ------
    InputError
        If labels do not match or a value is out of range; the message names it.
    InfeasibleError, SolveError
        If there is no allocation, or no solver found one.
    """
    chosen = get_policy(policy)
    tensor = ThroughputTensor.of(throughput_tensor, workers=workers, jobs=jobs)
    cluster = tensor.cluster
    tensor = tensor.on_types_of(cluster)
    table = jobs_of(tensor, tensor.jobs_table, chosen)
    packing = pack_gangs(tensor, cluster, table) if gang_packing else GangPacking.none(tensor)
    resources = [*resources, *packing.resources]
    instance = instance_of(tensor, cluster, table, resources, packing.largest_gang)
    instance = replace(instance, option_tier=tiers_of_options(tensor))
    _check_alone(chosen, tensor, instance)
    _check_pinned(chosen, tensor, instance)
    given = GivenOrder.of(
        instance, instance.resource_names, [_texts(option) for option in tensor.options]
    )
    solution = solve_instance(
        chosen,
        given.apply(instance),
        pairs=given.apply_to_pairs(_sharing(chosen, pairs, tensor, table)),
        group=group,
        intervals=intervals,
        second_stage=second_stage,
        solver=solver,
        partitions=partitions,
        seed=seed,
        fallback=fallback,
        time_limit_s=time_limit_s,
        gap=gap,
    )
    return _labelled(chosen, tensor, table, resources, packing.note, given.restore(solution))


def _labelled(
    policy: Policy,
    tensor: ThroughputTensor,
    table: pd.DataFrame,
    resources: Sequence[Resource],
    note: str,
    solution: Solution,
) -> Allocation:
    """Put labels on a solution, and warn of one that is not what was asked for."""
    if solution.status == "fallback":
        _LOG.warning("%r: %s", policy, solution.message)
    elif solution.gap > 1e-6:
        _LOG.warning("%r: the gap is %.1e", policy, solution.gap)
    notes = solution.message, _missed_deadlines(policy, table, solution), note
    prices = pd.Series(
        solution.prices, index=_resources(tensor, tensor.cluster, resources), name="price"
    )
    return Allocation(
        X=pd.DataFrame(solution.X, index=_rows(tensor, solution), columns=tensor.options),
        throughput=pd.Series(solution.throughput, index=tensor.jobs, name="throughput"),
        objective=solution.objective,
        prices=prices,
        gap=solution.gap,
        status=solution.status,
        policy=repr(policy),
        unit=policy.unit,
        message=" ".join(filter(None, notes)),
        stats=solution.stats,
        integral=policy.integral,
    )


def _texts(option: Any) -> tuple[str, ...]:
    """Return an option as texts, which compare."""
    return tuple(map(str, option)) if isinstance(option, tuple) else (str(option),)


def _resources(
    tensor: ThroughputTensor, cluster: Cluster, resources: Sequence[Resource]
) -> list[Any]:
    """Labels of the prices: types as the tensor has them, then what there is beside the GPUs."""
    label = dict(zip(tensor.accelerator_of_option, tensor.type_labels, strict=True))
    types = [label.get(name, name) for name in cluster.accelerators]
    return [*types, *(resource.name for resource in resources)]


def _check_alone(policy: Policy, tensor: ThroughputTensor, instance: Instance) -> None:
    """Name a job that never runs by itself, if the policy gives time to single jobs only."""
    together = instance.row_alone < 0
    if "runs_jobs_alone" in policy.traits and together.any():
        job = tensor.jobs[together][0]
        raise InputError(
            f"{policy!r} gives time to jobs by themselves only, and job {written(job)} runs in "
            f"combinations only; give its throughputs alone, or use a policy such as "
            f"'max_min_fairness'."
        )


def _check_pinned(policy: Policy, tensor: ThroughputTensor, instance: Instance) -> None:
    """Name jobs whose pins cannot hold, or that are pinned where shares of time are given."""
    if instance.pinned.any() and not policy.integral:
        job = tensor.rows[instance.pinned][0]
        raise InputError(
            f"Job {written(job)} is pinned, which is for policies that decide in whole numbers; "
            f"{policy!r} gives shares of time. Leave the column out."
        )
    check_pins(instance, tensor.rows.tolist())


def _sharing(
    policy: Policy,
    pairs: PairThroughputs | None,
    tensor: ThroughputTensor,
    table: pd.DataFrame,
) -> PairTable | None:
    """Pair throughputs by job, where the policy lets jobs share."""
    combined = not tensor.rows.equals(tensor.jobs)
    if policy.space_sharing and pairs is None and not combined:
        raise InputError(
            f"{policy!r} lets jobs share GPUs: give pairs=, or combinations as rows of the tensor."
        )
    return pair_table(pairs, tensor, table) if policy.space_sharing and pairs is not None else None


def _rows(tensor: ThroughputTensor, solution: Solution) -> pd.Index:
    """Labels of the rows of X: those of the tensor, then pairs of jobs."""
    if not len(solution.pairs):
        return tensor.rows
    jobs = tensor.jobs.tolist()
    pairs = [COMBINATION.join((str(jobs[a]), str(jobs[b]))) for a, b in solution.pairs.tolist()]
    return pd.Index([*tensor.rows.tolist(), *pairs])


def _missed_deadlines(policy: Policy, table: pd.DataFrame, solution: Solution) -> str:
    """Name the jobs that the allocation is too slow for, where deadlines are the policy's."""
    if "deadline_s" not in policy.columns:
        return ""
    left_s = table["deadline_s"] - table["elapsed_s"]
    late = ~(left_s * solution.throughput * (1 + 1e-6) >= table["steps_remaining"]) & left_s.notna()
    if not late.any():
        return ""
    names = ", ".join(repr(job) for job in table.index[late][:5])
    return f"{late.sum()} deadlines cannot be met, the first of them of {names}."
