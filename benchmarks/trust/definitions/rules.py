"""Policies that are a formula or a matching."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import linear_sum_assignment

if TYPE_CHECKING:
    from benchmarks.trust.case import Floats
    from benchmarks.trust.definitions.facts import Facts


def formula(facts: Facts) -> Floats:
    """Allocation of `isolated` or `proportional`, jobs x options."""
    case = facts.case
    if case.policy == "isolated":
        time = facts.isolated_time
    else:
        gpus = float(facts.capacity.sum())
        wanted = float(facts.count * facts.scale @ facts.weight)
        most = min(1 / facts.weight.max(), gpus / wanted)
        time = most * facts.weight[:, None] * facts.shares[None, :]
    X = np.zeros_like(case.gpus)
    row, option = facts.entries
    X[row, option] = time[row, case.option_type[option]]
    return X


def matching_cost(
    facts: Facts, only: dict[int, int] | None = None, used: Floats | None = None
) -> float:
    """Least sum of place * duration over all matchings.

    `only` names the type that some jobs must be on, `used` the GPUs of each type that have queues.
    """
    used = facts.capacity if used is None else used
    case = facts.case
    durations = case.columns["steps_remaining"][:, None] / np.where(
        facts.alone > 0, facts.alone, np.nan
    )
    for job, kind in (only or {}).items():
        durations[job, np.arange(durations.shape[1]) != kind] = np.nan
    columns = [
        (kind, place)
        for kind, gpus in enumerate(used.astype(int))
        if facts.in_tensor[kind]
        for place in range(1, -(-case.jobs // max(gpus, 1)) + 1)
        for _ in range(min(gpus, case.jobs))
    ]
    kinds, places = (np.array(values) for values in zip(*columns, strict=True))
    cost = durations[:, kinds] * places
    # Costs over many decades: a job that cannot run there costs more than all that could.
    forbidden = np.nansum(np.nanmax(durations, axis=1)) * case.jobs * 2
    matched = linear_sum_assignment(np.where(np.isnan(cost), forbidden, cost))[1]
    return float(cost[np.arange(case.jobs), matched].sum())


def queue_fault(facts: Facts, X: Floats) -> float:
    """How much worse the best matching is in which the running jobs head all queues; relative.

    Several matchings may be the best, with queues on different numbers of GPUs: a job may be as
    well off second on a fast GPU as first on a slow one.
    """
    best = matching_cost(facts)
    running = {int(i): int(np.argmax(X[i])) for i in np.flatnonzero(X.max(axis=1) > 0.5)}
    kinds = {job: int(facts.case.option_type[option]) for job, option in running.items()}
    heads = np.bincount(list(kinds.values()), minlength=len(facts.capacity)).astype(float)
    if not running or (heads > facts.capacity).any():
        return 1.0
    forced = matching_cost(facts, kinds, heads)
    return (forced - best) / best if np.isfinite(forced) else 1.0


def packing_fault(facts: Facts, X: Floats) -> str:
    """What is wrong with a random packing, or nothing.

    Every job is in one combination; each combination has an equal slice of every type; pairs stand
    only if they are faster than taking turns, and only when jobs want more GPUs than there are.
    """
    case = facts.case
    used = np.flatnonzero(X.max(axis=1) > 0)
    size = np.bincount(case.row, minlength=case.rows)
    taken = np.concatenate([case.job[case.row == row] for row in used])
    if sorted(taken) != list(range(case.jobs)):
        return "a job is in no combination or in two"
    wants_more = facts.scale.sum() > facts.capacity.sum()
    if not wants_more and (size[used] > 1).any():
        return "packed although there are GPUs for all"
    for row in used[size[used] > 1]:
        members = np.flatnonzero(case.row == row)
        alone = facts.alone[case.job[members]][:, case.option_type]
        share = np.divide(case.speed[members], alone, out=np.zeros_like(alone), where=alone > 0)
        if not (share @ facts.shares[case.option_type]).sum() > 1 - 1e-9:
            return "a pair that is slower than taking turns"
    time = facts.capacity[None, case.option_type] / len(used) / case.gpus[used]
    elsewhere = facts.capacity[~facts.in_tensor].sum() / len(used) / case.gpus[used].max(axis=1)
    time = time / np.maximum(1.0, time.sum(axis=1) + elsewhere)[:, None]
    row, option = facts.entries
    allowed = np.zeros_like(X, dtype=bool)
    allowed[row, option] = True
    wrong = np.abs(np.where(allowed[used], time, 0.0) - X[used]).max()
    return "" if wrong <= 1e-9 else f"a slice is off by {wrong:.1e}"
