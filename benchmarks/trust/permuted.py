"""The same problem with jobs and types in another order must have the same answer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.trust.ask import ask

if TYPE_CHECKING:
    from benchmarks.trust.ask import Answer
    from benchmarks.trust.case import Case, Floats

SAME = 1e-5
# Random pairs, and matchings of which several can be the best, may depend on the order.
FREE = {"gandiva_packing", "allox"}
# Only the throughputs are determined.
THROUGHPUTS = {"nash_welfare", "strategy_proof"}


def can_be_permuted(case: Case) -> bool:
    """Whether the definition determines the shares themselves."""
    whole = "second_stage" not in case.arguments
    return case.shape == "plain" and case.route == "solve" and whole and case.policy not in FREE


def permuted(case: Case, rng: np.random.Generator) -> tuple[Case, np.ndarray, np.ndarray]:
    """Return the case in another order, and the orders of its jobs and types."""
    jobs, options = rng.permutation(case.jobs), rng.permutation(len(case.option_type))
    kinds = np.concatenate([options, np.arange(len(options), len(case.types))])
    other = replace(
        case,
        speed=case.speed[jobs][:, options],
        gpus=case.gpus[jobs][:, options],
        capacity=case.capacity[kinds],
        dollars=case.dollars[kinds],
        types=tuple(case.types[kind] for kind in kinds),
        columns={name: values[jobs] for name, values in case.columns.items()},
        entity=tuple(case.entity[job] for job in jobs) if case.entity else (),
        order=rng.permutation(len(case.types)),
    )
    return other, jobs, options


def dependence(case: Case, answer: Answer) -> float:
    """Largest difference between the answers in two orders."""
    rng = np.random.default_rng([case.seed, case.number])
    other, jobs, options = permuted(case, rng)
    again = ask(other)
    thr = np.empty_like(again.throughput)
    thr[jobs] = again.throughput
    X: Floats = np.empty_like(again.X)
    X[np.ix_(jobs, options)] = again.X
    apart = float((np.abs(thr - answer.throughput) / case.speed.max(axis=1)).max())
    if case.policy not in THROUGHPUTS:
        apart = max(apart, float(np.abs(X - answer.X).max()))
    return apart
