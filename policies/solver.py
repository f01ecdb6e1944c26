"""From a policy and an instance to a certified solution: every layer under `solve`, in order.

A whole decision goes to `apportion.policies.whole`. Shares of time are solved over one row for each
class of identical jobs, by the first of these that applies:

* levels that rise one after the other: `apportion.policies.core.water_filling`;
* an objective with a `Form` over single jobs: `apportion.policies.core.plain`;
* whatever else is stated in cvxpy: `apportion.policies.core.general`.
"""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Literal, get_args

import cvxpy as cp
import numpy as np

from apportion.checks import choice, number, seconds
from apportion.errors import InfeasibleError, InputError, SolveError
from apportion.policies.core import general, plain, water_filling
from apportion.policies.core.certificate import make_feasible
from apportion.policies.core.classes import Reduction, reduce
from apportion.policies.core.forms import read
from apportion.policies.core.unsolvable import unsolvable
from apportion.policies.normalisers import isolated_share
from apportion.policies.problem import Problem
from apportion.policies.solution import ACCURATE, Attempted, Solution
from apportion.policies.whole.decide import decide
from apportion.threads import one_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from apportion.policies.base import Policy
    from apportion.policies.core.forms import Form
    from apportion.policies.core.pairs import PairTable
    from apportion.policies.core.program import Program
    from apportion.policies.instance import Instance
    from apportion.types import Floats


_LOG = logging.getLogger(__name__)

TIME_LIMIT_S = 60.0
"""Seconds that the search for a whole decision may take unless another limit is given."""
Fallback = Literal["raise", "isolated"]
"""What `solve_instance` does when every solver has failed."""


@one_thread
def solve_instance(
    policy: Policy,
    instance: Instance,
    *,
    pairs: PairTable | None = None,
    group: bool = True,
    second_stage: bool = True,
    fallback: Fallback = "raise",
    time_limit_s: float | None = None,
    gap: float = 1e-9,
    start: Program | None = None,
) -> Solution:
    """Solve one allocation problem.

    Parameters
    ----------
    pairs
        Throughputs of jobs that share devices: with them, pairs of jobs become rows too. Only for
        instances whose rows are single jobs.
    group
        Whether identical jobs are solved as one (exact; off for comparison).
    second_stage
        Whether what the objective leaves open is chosen (`apportion.policies.core.plain`).
    fallback
        "isolated" returns the isolated share if every solver failed, with the status "fallback";
        by default that is an error. Of a policy that decides in whole numbers it is what jobs
        have now, as far as it fits.
    time_limit_s
        Seconds that the search for a whole decision may take, by default `TIME_LIMIT_S`; with a
        decision that is not proved the status is "time_limit". Only for policies with
        ``integral = True``.
    gap
        Relative distance from its bound at which the search for a whole decision ends. A
        decision that is not within it, or not within 1e-6, is "optimal_inaccurate".
    start
        What the last solve of the same policy has left: jobs come and go, and only the numbers
        that are new are sent to the solver. The result does not depend on it.

    Raises
    ------
    InputError
        If an option has no such value, or does not go with the policy.
    InfeasibleError
        If no allocation meets the constraints; it names the ones that cannot hold together.
    SolveError
        If no solver found an optimum; the message tells what was tried.
    """
    choice("fallback", fallback, get_args(Fallback))
    number("gap", gap, most=1.0)
    if time_limit_s is not None:
        seconds("time_limit_s", time_limit_s, strict=True, infinite=True)
    if time_limit_s is not None and not policy.integral:
        raise InputError(
            f"time_limit_s is of whole decisions, and {policy!r} gives shares of time, which take "
            f"no search; leave it out."
        )
    if pairs is not None and policy.integral:
        raise InputError(
            f"pairs= does not go with {policy!r}, which decides in whole numbers: give the "
            f"combinations that may share GPUs as rows of the throughput tensor."
        )
    if instance.jobs == 0:
        empty = np.zeros((instance.rows, instance.options))
        return Solution(empty, np.zeros(0), float("nan"), np.zeros_like(instance.capacity), 0.0)
    try:
        if policy.integral:
            limit_s = TIME_LIMIT_S if time_limit_s is None else time_limit_s
            return decide(policy, instance, group=group, time_limit_s=limit_s, gap=gap)
        return _shares(policy, instance, pairs, group, second_stage, start)
    except InfeasibleError:
        raise
    except SolveError as error:
        if fallback == "raise":
            raise
        return _without_optimum(policy, instance, str(error))


def _shares(
    policy: Policy,
    instance: Instance,
    pairs: PairTable | None,
    group: bool,
    second_stage: bool,
    start: Program | None,
) -> Solution:
    """Reduce, solve in the first way that is accurate, or the best, and go back to the jobs."""
    started = time.perf_counter()
    reduction = reduce(policy, instance, group, pairs)
    grouped_s = time.perf_counter() - started
    best: Attempted | None = None
    tried: dict[str, str] = {}
    try:
        for name, solve in _attempts(policy, reduction.believed, second_stage, start):
            try:
                outcome = solve()
            except InfeasibleError:
                raise
            except SolveError as error:
                tried[name] = str(error)
                continue
            tried[name] = f"gap {outcome.gap:.1e}"
            best = outcome if best is None or outcome.gap < best.gap else best
            if best.gap <= ACCURATE:
                break
            _LOG.info("%s: %s", name, tried[name])
    except (cp.error.DCPError, cp.error.SolverError) as error:
        raise unsolvable(policy, error) from error
    if best is None:
        raise SolveError(" Then ".join(dict.fromkeys(tried.values())))
    return _solution(reduction, best, tried, grouped_s)


def _attempts(
    policy: Policy, instance: Instance, second_stage: bool, start: Program | None
) -> Iterator[tuple[str, Callable[[], Attempted]]]:
    """Name the ways to solve a problem, best first."""
    if getattr(policy, "lexicographic", False):  # levels beyond the first count too
        yield "levels", partial(water_filling.solve, policy, instance, second_stage=second_stage)
        return
    if (form := _plain_form(policy, instance)) is not None:
        yield "plain", partial(plain.solve, form, instance, second_stage=second_stage, start=start)
    yield "general", partial(general.solve, policy, instance, second_stage=second_stage)


def _plain_form(policy: Policy, instance: Instance) -> Form | None:
    """Return the form of a problem over single jobs; ``None`` of another."""
    return read(policy, instance) if plain.is_plain(instance) else None


def _solution(
    reduction: Reduction, best: Attempted, tried: dict[str, str], grouped_s: float
) -> Solution:
    """Bring an outcome back to jobs."""
    shares, jobs_of_pairs = reduction.expand(best.X)
    return Solution(
        X=shares,
        throughput=reduction.throughput(best.X),
        objective=best.objective,
        prices=best.prices,
        gap=best.gap,
        status="optimal" if best.gap <= ACCURATE else "optimal_inaccurate",
        stats={
            "jobs": reduction.full.jobs,
            "classes": reduction.believed.jobs,
            "pairs": len(reduction.pairs),
            "options": reduction.full.options,
            "reduction": reduction.kind,
            "tried": tried,
            "group_s": grouped_s,
            **best.stats,
        },
        pairs=jobs_of_pairs,
    )


def _without_optimum(policy: Policy, instance: Instance, reason: str) -> Solution:
    """Return what is decided where there is no optimum: feasible, and not optimal.

    Every job has its isolated share; of a policy of whole decisions, what it has now. There are no
    prices (nan), and the gap is infinite.

    Parameters
    ----------
    policy
        The policy that could not be solved; its objective is evaluated.
    reason
        What came of the solvers.
    """
    p = Problem(instance)
    if policy.integral:
        _keep(p)
        said = "What jobs have now, as there is no decision"
    else:
        p.X.value = make_feasible(_slices(instance), instance)
        said = "The isolated share, as every solver failed"
    with np.errstate(divide="ignore", invalid="ignore"):
        value = policy.objective(p).args[0].value
    return Solution(
        X=p.X.value,
        throughput=np.asarray(p.throughput.value, dtype=float),
        objective=float("nan") if value is None else float(np.asarray(value).item()),
        prices=np.full(instance.capacity.size, np.nan),
        gap=float("inf"),
        status="fallback",
        message=f"{said}: {reason}",
        stats={"jobs": instance.jobs, "options": instance.options, "reduction": "none (fallback)"},
    )


def _slices(instance: Instance) -> Floats:
    """Give each job that runs by itself a 1/n slice, which options of a type share evenly."""
    accelerator = instance.option_accelerator
    share = isolated_share(instance.shared_gpus, instance.gpus_held, instance.count.sum())
    X, alone = np.zeros((instance.rows, instance.options)), instance.row_alone >= 0
    of_options = share[:, accelerator] / np.bincount(accelerator)[accelerator]
    X[instance.row_alone[alone]] = of_options[alone]
    return X


def _keep(p: Problem) -> None:
    """Leave every job with the option that it has now, in order, as far as capacities reach."""
    now, p.X.value = np.where(p.instance.can_run, p.current, 0.0), np.zeros(p.X.shape)
    for row in np.flatnonzero(now.any(axis=1)):
        p.X.value[row] = now[row]
        if (np.asarray(p.held.value) > p.instance.capacity).any():
            p.X.value[row] = 0.0
