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
from apportion.errors import InputError, unknown_name, written
from apportion.jobs import JOB_COLUMNS, check_jobs, places_of_texts, refuse_misplaced
from apportion.policies.core.classes import GivenOrder
from apportion.policies.core.pairs import PairTable
from apportion.policies.instance import Instance, usage_of_gpus
from apportion.policies.registry import get_policy
from apportion.policies.solver import Fallback, solve_instance
from apportion.policies.tiers import pack_gangs, tiers_of_options
from apportion.policies.whole.valid import check_pins
from apportion.problem_inputs import COMBINATION
from apportion.tensor import ThroughputTensor
from apportion.ties import order_of_submission

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from apportion.cluster import Cluster
    from apportion.pairs import PairThroughputs
    from apportion.policies.base import Policy
    from apportion.policies.resource import Resource
    from apportion.policies.solution import Solution
    from apportion.problem_inputs import Jobs, Workers
    from apportion.tensor import Throughputs
    from apportion.types import Floats, Ints

    SharedLinks = Any  # of the simulator, which knows how to solve itself


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
    throughput_tensor: Throughputs | SharedLinks,
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
    tensor: Any = throughput_tensor
    if hasattr(tensor, "solved_by"):
        _refuse_beside(tensor, workers=workers, jobs=jobs, resources=resources or None, pairs=pairs)
        how: dict[str, Any] = {"fallback": fallback, "time_limit_s": time_limit_s, "gap": gap}
        found: Allocation = tensor.solved_by(chosen, **how)
        return found
    if workers is not None or jobs is not None or not isinstance(tensor, ThroughputTensor):
        tensor = ThroughputTensor.of(tensor, workers=workers, jobs=jobs)
    problem = read(chosen, tensor, resources, gang_packing=gang_packing)
    solution = solve_instance(
        chosen,
        problem.instance,
        pairs=_pair_table(chosen, pairs, tensor, problem) if chosen.space_sharing else None,
        group=group,
        second_stage=second_stage,
        fallback=fallback,
        time_limit_s=time_limit_s,
        gap=gap,
    )
    return problem.allocation(chosen, problem.order.restore(solution))


def _refuse_beside(links: SharedLinks, **given: Any) -> None:
    """Refuse arguments that say nothing to jobs on shared links."""
    for name, value in given.items():
        if value is not None:
            raise InputError(
                f"{name}= goes with throughputs; a {type(links).__name__} has all that it needs. "
                f"Leave it out."
            )


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
    """

    instance: Instance
    order: GivenOrder
    rows: pd.Index
    jobs: pd.Index
    options: pd.Index
    resources: pd.Index
    columns: Mapping[str, Any]
    note: str = ""

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
        late = _missed_deadlines(self.table, solution) if "deadline_s" in policy.columns else ""
        pairs = len(solution.pairs) > 0
        rows = _names_of_pairs(self.rows, self.jobs, solution) if pairs else self.rows
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
    tensor = tensor.on_types_of(cluster)
    columns = columns_of(tensor, tensor.jobs_table, policy)
    largest: Floats | float = np.inf
    note = ""
    if gang_packing and tensor.has_tiers:
        packing = pack_gangs(tensor, cluster, columns["scale_factor"])
        resources = [*resources, *packing.resources]
        largest, note = packing.largest_gang, packing.note
    given = instance_of(tensor, cluster, columns, resources, largest)
    if "runs_jobs_alone" in policy.traits:
        _check_alone(policy, given, tensor)
    if "pinned" in given.columns:
        _check_pinned(policy, given, tensor)
    order = GivenOrder.of(given, tensor.options)
    names, types, named = tensor.type_labels, tensor.accelerator_of_option, given.resource_names
    if names.tolist() != [*named]:
        label = dict(zip(types, names, strict=True))
        names = pd.Index([*map(label.get, named, named)])
    labels = tensor.rows, tensor.jobs, tensor.options, names
    return Read(order.apply(given), order, *labels, columns, note)


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
    columns["order"] = order = np.empty(size)
    order[order_of_submission(tensor.jobs, arrival_s)] = np.arange(size)
    if missing := [name for name in policy.columns if name not in columns]:
        check_jobs(pd.DataFrame(index=tensor.jobs), required=missing)
    if hasattr(policy, "check_jobs"):
        policy.check_jobs(pd.DataFrame(columns, index=tensor.jobs))
    return columns


def aligned(jobs: pd.DataFrame, ids: pd.Index) -> pd.DataFrame:
    """Return a jobs table in the order of a tensor; both must have the same jobs."""
    if jobs.index.equals(ids):
        return jobs
    for job in ids.difference(jobs.index, sort=False):
        raise unknown_name("job in the throughput tensor (not in the jobs table)", job, jobs.index)
    for job in jobs.index.difference(ids, sort=False):
        raise unknown_name("job in the jobs table (not in the throughput tensor)", job, ids)
    return jobs.loc[ids]


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
    names = (*cluster.gpus, *(resource.name for resource in resources))
    for name in names[len(cluster.gpus) :]:
        if names.count(name) > 1:
            raise InputError(f"Two resources are called {name!r}; each needs its own name.")
    capacity = np.array([*cluster.gpus.values(), *(each.limit for each in resources)], dtype=float)
    accelerator = _places(tensor, cluster)
    columns, texts = _columns_and_texts(jobs, tensor, cluster)
    (row, job), per_option = tensor.member_places, tensor.gpus_of_option
    gang = np.zeros(len(tensor.rows))
    np.maximum.at(gang, row, columns["scale_factor"][job])
    shape = gang.size, len(tensor.options)
    held = np.broadcast_to(gang[:, None] if per_option is None else per_option, shape)
    usage = None
    if per_option is not None or not tensor.solo or resources:
        usage = usage_of_gpus(held, accelerator, capacity.size)
        for place, resource in enumerate(resources, start=len(cluster.gpus)):
            used = resource.used(tensor).tocoo()
            cells = used.coords[0], used.coords[1] * capacity.size + place
            usage = usage + sparse.csr_array((used.data, cells), shape=usage.shape)
    prices = [cluster.prices_per_gpu_hour.get(name, np.nan) for name in cluster.gpus]
    instance = Instance(
        throughput=np.where(
            held[row] <= np.minimum(capacity[accelerator], largest_gang),
            tensor.values.to_numpy(),
            0.0,
        ),
        member_row=row,
        member_job=job,
        own_usage=usage,
        capacity=capacity,
        option_accelerator=accelerator,
        columns=columns,
        prices=np.array([*prices, *[0.0] * len(resources)]),
        texts=texts,
        types=len(cluster.gpus),
        resource_names=names,
        option_tier=tiers_of_options(tensor) if tensor.has_tiers else None,
    )
    fits = np.zeros(len(tensor.jobs), dtype=bool)
    fits[job[instance.can_run[row].any(axis=1)]] = True
    if not fits.all():
        first = int(np.argmin(fits))
        needs = held[row][(job == first)[:, None] & (tensor.values.to_numpy() > 0)]
        raise InputError(
            f"Job {written(tensor.jobs[first])} fits nowhere: it needs {needs.min():g} GPUs of a "
            f"type on which it runs, and the cluster has {cluster}."
        )
    return instance


def _places(tensor: ThroughputTensor, cluster: Cluster) -> Ints:
    """Place in a cluster of the accelerator type of each option, shape (options,)."""
    places = {name: place for place, name in enumerate(cluster.gpus)}
    for name in tensor.accelerator_of_option:
        if name not in places:
            raise unknown_name("accelerator in the throughput tensor", name, cluster.gpus)
    return np.array([places[name] for name in tensor.accelerator_of_option], dtype=np.intp)


def _columns_and_texts(
    jobs: pd.DataFrame | Mapping[str, Any], tensor: ThroughputTensor, cluster: Cluster
) -> tuple[dict[str, Floats], dict[str, tuple[str, ...]]]:
    """Return columns of the jobs as numbers, and what those of texts hold the places of.

    Of options and accelerator types it is their places, -1 for none.
    """
    columns: dict[str, Floats] = {}
    texts: dict[str, tuple[str, ...]] = {}
    for name, values in jobs.items():
        if values.dtype.kind in "biuf":
            columns[str(name)] = np.asarray(values, dtype=float)
        elif name == "entity" or name not in JOB_COLUMNS:
            columns[str(name)], texts[str(name)] = places_of_texts(values)
    if "current_option" in jobs:
        options = tensor.options.tolist()
        for job, option in zip(tensor.jobs, jobs["current_option"], strict=True):
            if option is not None and option not in options:
                raise InputError(
                    f"Job {written(job)} has current_option = {written(option)}; it must be one of "
                    f"{', '.join(map(written, options[:20]))}, or None."
                )
        columns["current_option"] = _places_in([None, *options], jobs["current_option"])
    if "running_on" in jobs:
        for name in jobs["running_on"]:
            if name and name not in cluster.gpus:
                raise unknown_name("accelerator in the column 'running_on'", name, cluster.gpus)
        columns["running_on"] = _places_in(["", *cluster.gpus], jobs["running_on"])
    return columns, texts


def _places_in(known: Sequence[Any], labels: Any) -> Floats:
    """Return the place of each label behind the first one that is known, which stands for none."""
    places = {label: place for place, label in enumerate(known, start=-1)}
    return np.array([places[label] for label in labels], dtype=float)


def _pair_table(
    policy: Policy, pairs: PairThroughputs | None, given: ThroughputTensor, problem: Read
) -> PairTable | None:
    """Look up pair throughputs by the job types and scale factors of the jobs.

    ``None`` where rows are combinations already.
    """
    tensor = given.on_types_of(given.cluster)
    if pairs is None:
        if tensor.rows.equals(tensor.jobs):
            raise InputError(
                f"{policy!r} lets jobs share GPUs: give pairs=, or combinations as rows of the "
                f"tensor."
            )
        return None
    names = tensor.options.map(str)
    runs = (tensor.values.to_numpy() > 0).any(axis=0)
    asked = np.flatnonzero(runs | names.isin(pairs.accelerators))  # the others need no pairs
    known, key = pairs.lookup(problem.table, names[asked])
    own = np.zeros((*known.shape[:2], len(names)))
    own[:, :, asked] = known
    return PairTable(own, key).in_order(problem.order.jobs, problem.order.options)


def _check_alone(policy: Policy, instance: Instance, tensor: ThroughputTensor) -> None:
    """Name a job that never runs by itself, if the policy gives time to single jobs only."""
    together = instance.row_alone < 0
    if together.any():
        raise InputError(
            f"{policy!r} gives time to jobs by themselves only, and job "
            f"{written(tensor.jobs[together][0])} runs in combinations only; give its throughputs "
            f"alone, or use a policy such as 'max_min_fairness'."
        )


def _check_pinned(policy: Policy, instance: Instance, tensor: ThroughputTensor) -> None:
    """Name jobs whose pins cannot hold, or that are pinned where shares of time are given."""
    if instance.pinned.any() and not policy.integral:
        job = tensor.rows[instance.pinned][0]
        raise InputError(
            f"Job {written(job)} is pinned, which is for policies that decide in whole numbers; "
            f"{policy!r} gives shares of time. Leave the column out."
        )
    check_pins(instance, tensor.rows.tolist())


def _names_of_pairs(rows: pd.Index, jobs: pd.Index, solution: Solution) -> pd.Index:
    """Labels of the rows of X: those that were given, then pairs of jobs."""
    ids = jobs.tolist()
    pairs = [COMBINATION.join((str(ids[a]), str(ids[b]))) for a, b in solution.pairs.tolist()]
    return pd.Index([*rows.tolist(), *pairs])


def _missed_deadlines(table: pd.DataFrame, solution: Solution) -> str:
    """Name the jobs that the allocation is too slow for."""
    left_s = table["deadline_s"] - table["elapsed_s"]
    # Shares are right to some 1e-7: who misses by a millionth is in time.
    late = ~(left_s * solution.throughput * (1 + 1e-6) >= table["steps_remaining"]) & left_s.notna()
    if not late.any():
        return ""
    names = ", ".join(repr(job) for job in table.index[late][:5])
    return f"{late.sum()} deadlines cannot be met, the first of them of {names}."
