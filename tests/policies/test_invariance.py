"""The order, the names and the company of jobs and types change nothing, for every policy there is.

Permutations must give the same bits. Where the problem that a solver sees is another (one more
type, other names), linear programs must agree to 1e-9: X is a vertex of them, or the solution of
equations that an active set fixes. Interior points end at a relative error of 1e-8 in an objective
that is flat at its optimum, so that X itself is known to about the root of that.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from tests.seeds import ranges_of_seeds, sampled

import apportion as ap
from apportion.policies import BUILT_IN, SPECIALISED, WHOLE, Policy, get_policy, policy_table

INNER = {"strategy_proof", "hierarchical_fairness", "min_cost_slos"}
"""Their limits come from problems of their own, which interior points or chains of them solve."""


OTHER_OPTIONS = {
    policy.name
    for options, policies in WHOLE.items()
    for policy in policies
    if options != "(type, GPUs)" or policy is ap.Lyra
}
"""What they choose is no accelerator type; their own tests permute servers, rotations and places.
Lyra needs room for the base workers of all jobs, which these problems do not leave."""


def variants() -> list[Policy]:
    """Return every policy of the registry: plain, agnostic, with space sharing, lexicographic."""
    found: list[Policy] = []
    for name in policy_table()["name"]:
        if name in OTHER_OPTIONS:
            continue
        plain: Any = get_policy(name)
        options = {field.name for field in fields(plain)} if is_dataclass(plain) else set()
        changes = {"heterogeneity_aware": False, "space_sharing": True, "lexicographic": True}
        own = [
            {option: value}
            for option, value in changes.items()
            if option in options and getattr(plain, option) != value
        ]
        found += [replace(cast("Any", plain), **change) for change in ({}, *own)]
    return found


@dataclass(frozen=True, eq=False)
class Case:
    """One problem in labels: steps/s, jobs table, GPUs and prices by type, pairs."""

    T: pd.DataFrame
    jobs: pd.DataFrame
    gpus: dict[str, int]
    prices: dict[str, float]
    pairs: ap.PairThroughputs

    @classmethod
    def random(cls, seed: int, *, largest: int = 2) -> Case:
        """Draw a problem in which, as often as not, some jobs are alike but for their arrival."""
        rng = np.random.default_rng(seed)
        n, types = int(rng.integers(2, 9)), ["b", "a", "c"]
        speed = np.exp(rng.normal(1, 1.2, (n, 3)))
        if rng.random() < 0.5:
            speed[rng.random((n, 3)) < 0.2] = 0.0
        speed[np.arange(n), rng.integers(0, 3, n)] += 0.5
        ids = [f"j{k}" for k in rng.permutation(n)]
        T = pd.DataFrame(speed, index=ids, columns=types)
        jobs = pd.DataFrame(
            {
                "job_type": rng.choice(["lm", "gan"], n),
                "scale_factor": rng.choice([1, largest], n),
                "steps_remaining": 10 ** rng.uniform(3, 6, n),
                "weight": rng.choice([1.0, 2.0, 5.0], n),
                "entity": rng.choice(["red", "blue"], n),
                "deadline_s": np.where(rng.random(n) < 0.5, np.nan, 10 ** rng.uniform(4, 6, n)),
                "elapsed_s": rng.uniform(0, 100, n),
                "network_priority": rng.choice([0.0, 0.2, 1.0], n),
            },
            index=ids,
        )
        if rng.random() < 0.6:
            twins = np.arange(n) % max(n // 2, 1)
            T = T.iloc[twins].set_axis(ids)
            jobs = jobs.iloc[twins].set_axis(ids)
        jobs["arrival_s"] = rng.permutation(n) * 10.0
        keys = pd.MultiIndex.from_product([["gan", "lm"], [1, 2]])
        alone, together = rng.uniform(1, 9, (4, 4)), rng.uniform(0.3, 1.0, (4, 4, 4))
        together[[0, 0, 1, 1, 2, 2, 3, 3], [1, 3, 0, 2, 1, 3, 0, 2]] = 0.0
        pairs = ap.PairThroughputs(alone[:, None] * together, alone, keys, ("a", "b", "c", "z"))
        gpus = dict(zip(types, rng.integers(2, 5, 3).tolist(), strict=True))
        prices = dict(zip(types, rng.choice([1.0, 2.0, 3.0], 3).tolist(), strict=True))
        return cls(T, jobs, gpus, prices, pairs)

    def solve(self, policy: Policy) -> ap.Allocation:
        """Solve the problem."""
        prices = {name: self.prices.get(name, 9.0) for name in self.gpus}
        cluster = ap.Cluster(self.gpus, prices_per_gpu_hour=prices)
        pairs = self.pairs if policy.space_sharing else None
        return ap.solve(policy, self.T, workers=cluster, jobs=self.jobs, pairs=pairs)

    def permuted(self, rng: np.random.Generator) -> Case:
        """Give jobs, their facts, types and options in other orders."""
        types = rng.permutation(list(self.gpus)).tolist()
        return replace(
            self,
            T=self.T.iloc[rng.permutation(len(self.T))][rng.permutation(self.T.columns)],
            jobs=self.jobs.iloc[rng.permutation(len(self.T))],
            gpus={name: self.gpus[name] for name in types},
        )

    def with_a_type(self, gpus: int, speed: float | None) -> Case:
        """Add a type, with steps/s of every job on it or none."""
        T = self.T if speed is None else self.T.assign(z=speed)
        return replace(self, T=T, gpus={"z": gpus} | self.gpus)

    @classmethod
    def of_many_sizes(cls, seed: int, *, largest: int = 16) -> Case:
        """Draw up to 60 jobs on one to four types: alike, in proportion, or over four decades."""
        rng = np.random.default_rng([77, seed])
        n, k = int(rng.integers(1, [9, 9, 31, 61][seed % 4])), int(rng.integers(1, 5))
        decades = rng.choice([0.0, 0.5, 2.0, 4.0])
        speed = 10 ** rng.uniform(-decades / 2, decades / 2, (n, k))
        speed = [
            speed,
            np.outer(speed[:, 0], 10 ** rng.uniform(-1, 1, k)),
            rng.choice([1.0, 2.0, 3.0, 6.0], (n, k)),
            speed[rng.integers(0, max(1, n // 3), n)],
        ][rng.integers(0, 4)]
        if rng.random() < 0.3:
            speed[rng.random((n, k)) < 0.2] = 0.0
            speed[np.arange(n), rng.integers(0, k, n)] += 1.0
        gpus = 2 * rng.integers(1, rng.choice([4, 10, 50]), k)
        sizes = [size for size in (1, 2, 4, 8, 16) if size <= min(largest, gpus.min() // 2)]
        heavy = rng.random() < 0.7
        ids, types = [f"j{job:02}" for job in range(n)], list("abcd")[:k]
        jobs = pd.DataFrame(
            {
                "job_type": rng.choice(["lm", "gan"], n),
                "scale_factor": rng.choice(sizes, n).astype(int),
                "steps_remaining": 10 ** rng.uniform(0, rng.choice([0.0, 2.0, 5.0]), n),
                "weight": rng.choice([1.0, 2.0, 5.0], n) if heavy else 10 ** rng.uniform(-1, 3, n),
                "entity": rng.choice(["red", "blue"], n),
                "deadline_s": np.where(rng.random(n) < 0.5, np.nan, 10 ** rng.uniform(3, 7, n)),
                "elapsed_s": rng.uniform(0, 100, n) * (rng.random() < 0.5),
                "network_priority": rng.choice([0.0, 0.2, 1.0], n),
                "arrival_s": rng.permutation(n) * 10.0,
            },
            index=ids,
        )
        T, prices = pd.DataFrame(speed, ids, types), rng.choice([1.0, 2.0, 3.0], k)
        return cls(
            T,
            jobs,
            dict(zip(types, gpus.tolist(), strict=True)),
            dict(zip(types, prices.tolist(), strict=True)),
            pairs=cast("Any", None),
        )

    def in_units(self, factor: float) -> Case:
        """Count steps in another unit."""
        steps = self.jobs["steps_remaining"] * factor
        return replace(self, T=self.T * factor, jobs=self.jobs.assign(steps_remaining=steps))

    def halved(self, name: str) -> Case:
        """Give a type's GPUs two names, half of them each."""
        half = self.gpus[name] // 2
        return replace(
            self,
            T=self.T.assign(**{f"{name}2": self.T[name]}),
            gpus={**self.gpus, name: half, f"{name}2": half},
            prices={**self.prices, f"{name}2": self.prices[name]},
        )

    def swapped(self) -> tuple[Case, dict[str, str]]:
        """Give two jobs each other's names."""
        first, last = self.T.index[0], self.T.index[-1]
        names = {first: last, last: first}
        T, jobs = self.T.rename(index=names), self.jobs.rename(index=names)
        return replace(self, T=T, jobs=jobs), names


def off(expected: pd.DataFrame, got: pd.DataFrame) -> float:
    """Largest difference of shares, by label."""
    both = got.reindex(expected.index, fill_value=0.0)[expected.columns]
    missing = got.drop(expected.index, errors="ignore")  # pairs whose time is 0 elsewhere
    return max(
        float((both - expected).abs().to_numpy().max()), float(missing.to_numpy().max(initial=0.0))
    )


def check(policy: Policy, seed: int) -> None:
    """Check one policy on one problem."""
    case = Case.random(seed, largest=1 if policy.name == "allox" else 2)
    rng = np.random.default_rng([seed, 1])
    base = case.solve(policy)
    limits = policy.name in INNER or "lexicographic" in repr(policy)
    accuracy = 1e-5 if limits or base.stats["solver"] == "clarabel" else 1e-9
    permuted = case.permuted(rng).solve(policy)
    assert off(base.X, permuted.X) == 0.0
    assert permuted.objective == base.objective
    assert permuted.prices[base.prices.index].equals(base.prices)
    dead = case.with_a_type(0, 5.0).solve(policy).X
    assert off(base.X, dead[case.T.columns]) <= accuracy
    unused = case.with_a_type(0, None)
    assert off(base.X, unused.permuted(rng).solve(policy).X) <= accuracy
    # A speed that is not given is none: GPUs on which nobody runs count in equal shares.
    zeros = case.with_a_type(8, 0.0)
    assert off(zeros.solve(policy).X, zeros.permuted(rng).solve(policy).X) == 0.0
    unknown = case.with_a_type(8, None)
    assert off(zeros.solve(policy).X, unknown.permuted(rng).solve(policy).X) == 0.0
    if not policy.space_sharing:  # their rows are named after the jobs, and drawn by arrival
        other, names = case.swapped()
        assert off(base.X, other.solve(policy).X.rename(index=names)) <= accuracy


@pytest.mark.parametrize("policy", sampled(variants(), 5), ids=repr)
def test_order_names_and_company_change_nothing(policy: Policy) -> None:
    check(policy, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("policy", variants(), ids=repr)
def test_order_names_and_company_change_nothing_in_many_problems(policy: Policy) -> None:
    for seed in (0, *range(2, 30)):
        check(policy, seed)


FACTORS = (1e-12, 2.0**-40, 1e-3, 0.1, 7.3, 1e3, 2.0**40, 1e12)
ALONE = [policy for policy in variants() if not policy.space_sharing]


def check_units(policy: Policy, seed: int) -> None:
    """Check that neither the unit of steps nor two names for one type move the shares."""
    case = Case.of_many_sizes(seed, largest=1 if policy.name == "allox" else 16)
    base = case.solve(policy)
    limits = policy.name in INNER or "lexicographic" in repr(policy)
    accuracy = 1e-5 if limits or base.stats["solver"] == "clarabel" else 1e-8
    for factor in {FACTORS[seed % 8], FACTORS[(3 * seed + 2) % 8]}:
        assert off(base.X, case.in_units(factor).solve(policy).X) <= accuracy, (seed, factor)
    if policy.integral or (policy.name == "allox" and not policy.heterogeneity_aware):
        return  # gangs in one half only; types that are alike to it are taken by their GPUs
    name = case.T.columns[seed % case.T.shape[1]]
    X = case.halved(name).solve(policy).X
    assert off(base.X, X.assign(**{name: X[name] + X[f"{name}2"]})) <= 10 * accuracy, (seed, name)


@pytest.mark.parametrize("seeds", ranges_of_seeds(1, 100))
@pytest.mark.parametrize("policy", sampled(ALONE, 2), ids=repr)
def test_units_and_two_names_for_one_type_change_nothing(policy: Policy, seeds: range) -> None:
    for seed in seeds if policy.name != "strategy_proof" else seeds[:10]:
        check_units(policy, seed)


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(seed, marks=[] if seed in {0, 13, 22} else pytest.mark.slow)
        for seed in range(100)
    ],
)
def test_units_change_nothing_where_jobs_span_ten_decades(seed: int) -> None:
    """Squares of small shares and of large ones count alike."""
    rng = np.random.default_rng([5, seed])
    n, types = int(rng.integers(20, 61)), ["a", "b"][: 1 + int(seed % 3 == 2)]
    T = pd.DataFrame(10 ** rng.uniform(-3, 1.5, (n, len(types))), columns=types)
    gpus = dict(zip(types, (2 * rng.integers(4, 20, len(types))).tolist(), strict=True))
    jobs = pd.DataFrame(
        {
            "scale_factor": rng.choice([1, 2, 4, 8], n),
            "steps_remaining": 10 ** rng.uniform(5, 11, n),
        }
    )
    base = ap.solve("makespan", T, workers=gpus, jobs=jobs).X
    for factor in (0.1, 7.3):
        steps = jobs.assign(steps_remaining=jobs["steps_remaining"] * factor)
        assert off(base, ap.solve("makespan", T * factor, workers=gpus, jobs=steps).X) <= 1e-8


def test_every_registered_policy_is_looked_at() -> None:
    assert {type(policy) for policy in variants()} >= {*BUILT_IN, *SPECIALISED}


def digest() -> str:
    """Hash the allocations of policies of every kind of solver, for 60 jobs."""
    rng = np.random.default_rng(0)
    T = pd.DataFrame(rng.uniform(1, 9, (60, 3)), columns=["a", "b", "c"])
    jobs = pd.DataFrame(
        {"steps_remaining": rng.uniform(1e3, 1e5, 60), "weight": rng.choice([1.0, 2.0], 60)}
    )
    found = hashlib.sha256()
    for name in ("max_min_fairness", "finish_time_fairness", "fifo_agnostic", "nash_welfare"):
        X = ap.solve(name, T, workers={"a": 9, "b": 7, "c": 8}, jobs=jobs).X
        found.update(X.to_numpy().tobytes())
    levels = ap.solve("makespan", T, workers={"a": 9, "b": 7, "c": 8}, jobs=jobs)
    found.update(levels.X.to_numpy().tobytes())
    return found.hexdigest()


@pytest.mark.thorough
def test_threads_and_hash_seeds_change_nothing() -> None:
    seen = set()
    for threads, seed in (("1", "0"), ("4", "2")):
        pools = dict.fromkeys(["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"], threads)
        run = subprocess.run(
            [sys.executable, "-m", "tests.policies.test_invariance"],
            cwd=Path(__file__).parents[2],
            env=os.environ | pools | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        seen.add(run.stdout.strip())
    assert len(seen) == 1
    assert len(seen.pop()) == 64


if __name__ == "__main__":
    sys.stdout.write(digest())
