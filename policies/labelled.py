"""`solve`: labelled tables in, a labelled Allocation out."""

from __future__ import annotations

import logging
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse

from apportion.allocation import Allocation
from apportion.annotations import checked
from apportion.jobs import JOB_COLUMNS, check_jobs, places_of_texts, refuse_misplaced
from apportion.policies.core.classes import GivenOrder
from apportion.policies.instance import Instance, usage_of_gpus
from apportion.policies.labels import (
    PosedByItself,
    aligned,
    check_alone,
    check_pinned,
    fits_nowhere,
    missed_deadlines,
    names_of_pairs,
    names_of_resources,
    pair_table,
    places_of_accelerators,
    places_of_options,
    places_of_types,
    refuse_beside,
)
from apportion.policies.registry import get_policy
from apportion.policies.solver import solve_instance
from apportion.policies.tiers import pack_gangs, tiers_of_options
from apportion.tensor import ThroughputTensor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from apportion.cluster import Cluster
    from apportion.pairs import PairThroughputs
    from apportion.policies.base import Policy
    from apportion.policies.core.options import Fallback
    from apportion.policies.resource import Resource
    from apportion.policies.solution import Solution
    from apportion.problem_inputs import Jobs, Workers
    from apportion.tensor import Throughputs
    from apportion.types import Floats


_LOG = logging.getLogger(__name__)

DEFAULTS = {
    "weight": 1.0,
    "count": 1.0,
    "scale_factor": 1.0,
    "elapsed_s": 0.0,
    "network_priority": 0.0,
    "waited_s": 0.0,
    "entity_used_s": 0.0,
    "reallocation_factor": 1.0,
}
"""What is taken of jobs of which a column of the jobs table does not tell."""


@checked
def solve(
    policy: Policy | str,
    throughput_tensor: Throughputs | PosedByItself,
    *,
    workers: Workers | None = None,
    jobs: Jobs | None = None,
    resources: Sequence[Resource] = (),
    pairs: PairThroughputs | None = None,
    gang_packing: bool = True,
    group: bool = True,
    second_stage: bool = True,
    solver: str = "auto",
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
        n - 1. A job cannot run on a type of the workers that no throughput names. For the policy
        ``"rotations"`` an `apportion.SharedLinks`: what jobs send, and over which links.
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
        (accelerator, tier) with the tiers of `TIERS`; see `apportion.policies.tiers`.
    group, second_stage
        See `solve_instance`; the defaults are right for all but comparisons.
    solver
        Has no effect: the one that suits the problem is chosen.
    fallback
        See `solve_instance`: what to do when every solver fails.
    time_limit_s, gap
        See `solve_instance`: how long to search for a whole decision, and how good it has to be.

    Raises
    ------
    InputError
        If labels do not match or a value is out of range; the message names it.
    InfeasibleError, SolveError
        If there is no allocation, or no solver found one.
    """
    if solver != "auto":
        warnings.warn("solver= has no effect; leave it out.", FutureWarning, stacklevel=3)
    chosen = get_policy(policy)
    tensor = throughput_tensor
    if isinstance(tensor, PosedByItself):
        given = {"workers": workers, "jobs": jobs, "resources": resources or None, "pairs": pairs}
        refuse_beside(tensor, given)
        return tensor.solved_by(chosen, fallback=fallback, time_limit_s=time_limit_s, gap=gap)
    if workers is not None or jobs is not None or not isinstance(tensor, ThroughputTensor):
        tensor = ThroughputTensor.of(tensor, workers=workers, jobs=jobs)
    problem = read(chosen, tensor, resources, gang_packing=gang_packing)
    shared, order = None, problem.order
    if chosen.space_sharing and problem.tensor is not None:
        shared = pair_table(chosen, pairs, problem.tensor, problem.table)
    solution = solve_instance(
        chosen,
        problem.instance,
        pairs=None if shared is None else shared.in_order(order.jobs, order.options),
        group=group,
        second_stage=second_stage,
        fallback=fallback,
        time_limit_s=time_limit_s,
        gap=gap,
    )
    return problem.allocation(chosen, order.restore(solution))


class Read(NamedTuple):
    """A problem in arrays, in the order in which it is solved, and the labels that it has.

    Attributes
    ----------
    instance
        The arrays.
    order
        The way back to the order of the labels.
    rows, jobs, options, resources
        Labels in the order in which they were given; types come first among the resources.
    columns
        Columns of the jobs table, in the order of the jobs.
    note
        What a reader of the result must know.
    tensor
        The throughputs, under every type of the cluster.
    """

    instance: Instance
    order: GivenOrder
    rows: pd.Index
    jobs: pd.Index
    options: pd.Index
    resources: pd.Index
    columns: Mapping[str, Any]
    note: str = ""
    tensor: ThroughputTensor | None = None

    @property
    def table(self) -> pd.DataFrame:
        """The jobs table."""
        return pd.DataFrame({**self.columns}, index=self.jobs)

    def allocation(self, policy: Policy, solution: Solution) -> Allocation:
        """Put labels on a solution, and warn of one that is not what was asked for."""
        if solution.status == "fallback":
            _LOG.warning("%r: %s", policy, solution.message)
        elif solution.gap > 1e-6:
            _LOG.warning("%r: the gap is %.1e", policy, solution.gap)
        late = missed_deadlines(self.table, solution) if "deadline_s" in policy.columns else ""
        pairs = len(solution.pairs) > 0
        rows = names_of_pairs(self.rows, self.jobs, solution) if pairs else self.rows
        return Allocation(
            X=pd.DataFrame(solution.X, index=rows, columns=self.options),
            throughput=pd.Series(solution.throughput, index=self.jobs, name="throughput"),
            objective=solution.objective,
            prices=pd.Series(solution.prices, index=self.resources, name="price"),
            gap=solution.gap,
            status=solution.status,
            policy=repr(policy),
            unit=policy.unit,
            message=" ".join(filter(None, (solution.message, late, self.note))),
            stats=solution.stats,
            integral=policy.integral,
        )


def read(
    policy: Policy,
    tensor: ThroughputTensor,
    resources: Sequence[Resource] = (),
    *,
    gang_packing: bool = True,
) -> Read:
    """Turn a tensor with its jobs and workers, and resources, into a problem in arrays.

    Raises
    ------
    InputError
        If labels do not match or a value is out of range; the message names it.
    """
    cluster = tensor.workers or tensor.cluster  # which says how to give some
    if not cluster.gpus.keys() <= set(tensor.accelerator_of_option):
        tensor = tensor.on_types_of(cluster)
    columns = columns_of(tensor, tensor.jobs_table, policy)
    largest: Floats | float = np.inf
    note = ""
    if gang_packing and tensor.has_tiers:
        packing = pack_gangs(tensor, cluster, pd.DataFrame(columns, index=tensor.jobs))
        resources = [*resources, *packing.resources]
        largest, note = packing.largest_gang, packing.note
    given = instance_of(tensor, cluster, columns, resources, largest)
    if "runs_jobs_alone" in policy.traits:
        check_alone(policy, given, tensor)
    if "pinned" in given.columns:
        check_pinned(policy, given, tensor)
    order = GivenOrder.of(given, tensor.options)
    names, types, named = tensor.type_labels, tensor.accelerator_of_option, given.resource_names
    if names is not types or names.tolist() != [*named]:
        label = dict(zip(types, names, strict=True))
        names = pd.Index([*map(label.get, named, named)])
    labels = tensor.rows, tensor.jobs, tensor.options, names
    return Read(order.apply(given), order, *labels, columns, note, tensor)


def jobs_of(tensor: ThroughputTensor, jobs: pd.DataFrame | None, policy: Policy) -> pd.DataFrame:
    """Jobs table in the order of the tensor, with what the policy needs."""
    return pd.DataFrame(columns_of(tensor, jobs, policy), index=tensor.jobs)


def columns_of(
    tensor: ThroughputTensor, jobs: pd.DataFrame | None, policy: Policy
) -> dict[str, Any]:
    """Columns of `jobs_of`, an array of shape (jobs,) each."""
    size = len(tensor.jobs)
    columns: dict[str, Any] = {name: np.full(size, value) for name, value in DEFAULTS.items()}
    if jobs is not None:
        known = jobs if jobs is tensor.jobs_table else check_jobs(jobs)  # the tensor's own is
        refuse_misplaced(known.columns, policy.columns, tensor.accelerator_of_option)
        for name, values in aligned(known, tensor.jobs).items():
            columns[str(name)] = values.array if values.dtype.kind == "O" else values.to_numpy()
    if "running_on" in policy.columns:
        columns.setdefault("running_on", np.full(size, "", dtype=object))
    if "now_s" in policy.columns:
        columns.setdefault("now_s", np.zeros(size))
    if "total_steps" in columns:
        columns.setdefault("steps_remaining", columns["total_steps"])
    columns.setdefault("isolated_elapsed_s", columns["elapsed_s"])
    arrival_s = np.asarray(columns.get("arrival_s", np.zeros(size)), dtype=float)
    by_id = tensor.jobs_by_id  # those of one time come by the numbers in their ids
    columns["order"] = order = np.empty(size)
    order[by_id[np.argsort(arrival_s[by_id], kind="stable")]] = np.arange(size)
    if missing := [name for name in policy.columns if name not in columns]:
        check_jobs(pd.DataFrame(index=tensor.jobs), required=missing)
    if hasattr(policy, "check_jobs"):
        policy.check_jobs(pd.DataFrame(columns, index=tensor.jobs))
    return columns


def instance_of(
    tensor: ThroughputTensor,
    cluster: Cluster,
    jobs: pd.DataFrame | Mapping[str, Any],
    resources: Sequence[Resource] = (),
    largest_gang: Floats | float = np.inf,
) -> Instance:
    """Turn labels into indices, and check that every job fits somewhere.

    Parameters
    ----------
    jobs
        From `jobs_of` or `columns_of`.
    largest_gang
        GPUs that one gang can have under each option at most, shape (options,).
    """
    types, named = len(cluster.gpus), tuple(cluster.gpus)
    capacity = np.array([*cluster.gpus.values()], dtype=float)
    prices = np.array([*map(cluster.prices_per_gpu_hour.get, named, [np.nan] * types)], dtype=float)
    accelerator = places_of_accelerators(tensor, cluster)
    columns, texts = _columns_and_texts(jobs, tensor, cluster)
    row, job = tensor.member_places
    held, per_option = np.zeros((len(tensor.rows), len(tensor.options))), tensor.gpus_of_option
    gang = columns["scale_factor"][:, None]
    room = np.minimum(capacity[accelerator], largest_gang)
    if tensor.solo:
        held[:] = gang if per_option is None else per_option
    else:
        np.maximum.at(held, row, gang[job] if per_option is None else per_option)
    usage = None
    if per_option is not None or not tensor.solo or resources:
        named = names_of_resources(cluster, resources)
        capacity = np.append(capacity, [resource.limit for resource in resources])
        prices = np.append(prices, np.zeros(len(resources)))
        usage = usage_of_gpus(held, accelerator, capacity.size)
        for place, resource in enumerate(resources, start=types):
            used = resource.used(tensor).tocoo()
            cells = used.coords[0], used.coords[1] * capacity.size + place
            usage = usage + sparse.csr_array((used.data, cells), shape=usage.shape)
    instance = Instance(
        throughput=np.where(held[row] <= room, tensor.values.to_numpy(), 0.0),
        member_row=row,
        member_job=job,
        member_share=np.ones(row.size),
        own_usage=usage,
        capacity=capacity,
        option_accelerator=accelerator,
        columns=columns,
        prices=prices,
        texts=texts,
        types=types,
        resource_names=named,
        option_tier=tiers_of_options(tensor) if tensor.has_tiers else None,
    )
    fits = np.zeros(len(tensor.jobs), dtype=bool)
    fits[job[instance.can_run[row].any(axis=1)]] = True
    if not fits.all():
        raise fits_nowhere(tensor, cluster, held[row], job, int(np.argmin(fits)))
    return instance


def _columns_and_texts(
    jobs: pd.DataFrame | Mapping[str, Any], tensor: ThroughputTensor, cluster: Cluster
) -> tuple[dict[str, Floats], dict[str, tuple[str, ...]]]:
    """Return columns of the jobs as numbers, and what those of texts hold the places of."""
    columns: dict[str, Floats] = {}
    texts: dict[str, tuple[str, ...]] = {}
    for name, values in jobs.items():
        if values.dtype.kind in "biuf":
            columns[str(name)] = np.asarray(values, dtype=float)
        elif name == "entity" or name not in JOB_COLUMNS:
            columns[str(name)], texts[str(name)] = places_of_texts(values)
    if "current_option" in jobs:
        columns["current_option"] = places_of_options(jobs["current_option"], tensor)
    if "running_on" in jobs:
        columns["running_on"] = places_of_types(jobs["running_on"], cluster)
    return columns, texts
