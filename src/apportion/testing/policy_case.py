"""Problems in labels on which a policy is checked, and whether its `traits` are true."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.cluster import Cluster
from apportion.errors import ApportionError, InfeasibleError, InputError
from apportion.policies import Resource, solve, solve_instance
from apportion.policies.labelled import instance_of, jobs_of
from apportion.tensor import ThroughputTensor
from apportion.testing.run_case import fail

if TYPE_CHECKING:
    from apportion.allocation import Allocation
    from apportion.policies import Instance, Policy
    from apportion.sim.elastic_workload import ElasticWorkload
    from apportion.sim.workload import Workload
    from apportion.types import Floats, Int64s


SHARE_TOLERANCE = 1e-5
"""Shares of time that differ by less are the same, but for rounding."""


@dataclass(frozen=True, eq=False)
class PolicyCase:
    """One problem in labels: steps/s, jobs table, cluster."""

    speed: pd.DataFrame
    jobs: pd.DataFrame
    cluster: Cluster
    soft: bool = False

    @classmethod
    def random(cls, rng: np.random.Generator, jobs: int, types: int) -> PolicyCase:
        """Draw a problem in which every deadline can be met."""
        names = [f"type-{j}" for j in range(types)]
        ids = [f"job-{i}" for i in range(jobs)]
        gpus = rng.integers(2, 4, types)  # fewer than the jobs want, so that shares matter
        price = dict(zip(names, rng.uniform(0.5, 3.0, types), strict=True))
        speed = rng.uniform(0.5, 20.0, (jobs, types)) * 10.0 ** rng.integers(-1, 2, (jobs, 1))
        speed[rng.random((jobs, types)) < 0.2] = 0.0
        speed[np.arange(jobs), rng.integers(0, types, jobs)] += 1.0
        cluster = Cluster(dict(zip(names, gpus.tolist(), strict=True)), prices_per_gpu_hour=price)
        table = _drawn(
            rng, speed, gpus, rng.choice([1, 2], jobs), rng.uniform(1e3, 1e5, jobs)
        ).set_axis(ids)
        table.loc[ids[0], "running_on"] = names[int(speed[0].argmax())]
        table["current_option"] = [names[place] for place in speed.argmax(axis=1)]
        return cls(pd.DataFrame(speed, index=ids, columns=names), table, cluster)

    @classmethod
    def of(
        cls,
        rng: np.random.Generator,
        jobs: int,
        workload: Workload | ElasticWorkload,
        given: Cluster,
    ) -> PolicyCase:
        """Draw jobs of a workload, on its cluster; what it does not say of them is drawn as well.

        Raises
        ------
        InputError
            If it is of elastic jobs.
        """
        throughput_of: Any = getattr(workload, "throughput_of", None)
        if throughput_of is None:
            raise InputError(
                "check_policy takes workloads of jobs of given sizes, not elastic ones."
            )
        lines = sorted(rng.permutation(len(workload.jobs))[:jobs].tolist())
        names = [f"job-{i}" for i in range(len(lines))]
        told = workload.jobs.iloc[lines].set_axis(names)
        speed: pd.DataFrame = throughput_of(given).iloc[lines]
        gpus = told["scale_factor"].to_numpy()
        steps = told["total_steps"].to_numpy(dtype=float) / 1.5
        drawn = _drawn(rng, speed.to_numpy(), given.counts, gpus, steps)
        best = speed.idxmax(axis=1).tolist()
        drawn = drawn.assign(current_option=best, running_on=[best[0], *[""] * (len(lines) - 1)])
        facts = drawn.set_axis(names).drop(columns=told.columns, errors="ignore").join(told)
        prices = {name: given.prices_per_gpu_hour.get(name, 1.0) for name in given.gpus}
        cluster = replace(given, prices_per_gpu_hour=prices)
        return cls(speed.set_axis(names), facts, cluster)

    def for_whole_decisions(self, policy: Policy) -> PolicyCase:
        """Add a soft resource, and GPUs for all jobs if they are needed."""
        own = replace(self, soft=True)
        try:
            own.solve(policy)
        except InfeasibleError:
            room = 3 * int(self.jobs["scale_factor"].sum())  # for three of each, too
            gpus = dict.fromkeys(self.cluster.gpus, room)
            own = replace(own, cluster=replace(self.cluster, gpus=gpus))
        return own

    @property
    def resources(self) -> list[Resource]:
        """A soft resource, of which a job of more weight holds more on types of a higher price."""
        if not self.soft:
            return []
        price = [self.cluster.prices_per_gpu_hour[name] for name in self.speed.columns]
        weight = self.jobs["weight"].loc[self.speed.index].to_numpy()
        held = pd.DataFrame(np.outer(weight, price), self.speed.index, self.speed.columns)
        return [Resource("link", None, held)]

    def solve(self, policy: Policy, **options: Any) -> Allocation:
        """Solve the problem."""
        given = {"resources": self.resources, **options}
        try:
            return solve(policy, self.speed, workers=self.cluster, jobs=self.jobs, **given)
        except ApportionError:  # which says itself what is wrong, or is right
            raise
        except Exception as error:  # of what the policy's author has written
            text = f"{len(self.jobs)} jobs on {self.cluster}"
            said = f"{type(error).__name__}: {error}"
            fail(policy, "able to state its problem", said, text=text, error=error)

    def instance(self, policy: Policy) -> Instance:
        """Return the problem in arrays, as the policy believes it."""
        tensor = ThroughputTensor.of(self.speed)
        table = jobs_of(tensor, self.jobs, policy)
        instance = instance_of(tensor, self.cluster, table)
        return instance if policy.heterogeneity_aware else instance.blind_to_types()

    def solve_as_given(self, policy: Policy) -> pd.DataFrame:
        """Return the shares without the order that `solve` brings everything into first."""
        tensor = ThroughputTensor.of(self.speed)
        table = jobs_of(tensor, self.jobs, policy)
        found = solve_instance(policy, instance_of(tensor, self.cluster, table))
        return pd.DataFrame(found.X, index=tensor.rows, columns=tensor.options)

    def counting_other_steps(self, rng: np.random.Generator) -> tuple[PolicyCase, pd.Series[float]]:
        """Count the steps of each job otherwise; return by what factor, too."""
        jobs = self.jobs.copy()
        factor = pd.Series(rng.choice([1 / 128, 128.0], len(jobs)), index=jobs.index)
        steps = ["total_steps", "steps_remaining"]
        jobs[steps] = jobs[steps].mul(factor, axis=0)
        return replace(self, speed=self.speed.mul(factor, axis=0), jobs=jobs), factor

    def only(self, ids: list[str]) -> PolicyCase:
        """Keep some of the jobs."""
        return replace(self, speed=self.speed.loc[ids], jobs=self.jobs.loc[ids])

    def repeated(self, times: int) -> PolicyCase:
        """Put several identical jobs in the place of each."""
        ids = [f"{job}-{copy}" for copy in range(times) for job in self.jobs.index]
        return replace(
            self,
            speed=pd.concat([self.speed] * times).set_axis(ids),
            jobs=pd.concat([self.jobs] * times).set_axis(ids),
        )


def _drawn(
    rng: np.random.Generator, speed: Floats, gpus: Int64s, scale_factor: Int64s, steps: Floats
) -> pd.DataFrame:
    """Draw every column of a jobs table, for jobs of these speeds; deadlines can all be met."""
    jobs, types = speed.shape
    elapsed_s = rng.uniform(0, 600, jobs)
    slice_of_each = np.minimum(gpus / (jobs * scale_factor[:, None]), 1 / types)
    pace = (speed * slice_of_each).sum(axis=1)
    deadline_s = elapsed_s + steps / pace * rng.uniform(1.2, 4.0, jobs)
    deadline_s[0] = np.nan
    return pd.DataFrame(
        {
            "arrival_s": rng.uniform(0, 600, jobs),
            "job_type": "a model",
            "scale_factor": scale_factor,
            "total_steps": steps * 1.5,
            "steps_remaining": steps,
            "weight": rng.choice([1.0, 2.0, 5.0], jobs),
            "entity": rng.choice(["red", "blue"], jobs),
            "deadline_s": deadline_s,
            "time_limit_s": 2.0 * steps / speed.max(axis=1),
            "duration_s": 1.5 * steps / speed.max(axis=1),
            "recorded_start_s": 600.0,
            "recorded_end_s": 7200.0,
            "recorded_on": "",
            "elapsed_s": elapsed_s,
            "now_s": 7200.0,
            "count": 1,
            "isolated_elapsed_s": elapsed_s * rng.uniform(0.5, 1.5, jobs),
            "network_priority": rng.choice([0.0, 0.2, 0.5, 1.0], jobs),
            "reallocation_factor": 1 / (1 + np.arange(jobs) % 3),
            "running_on": "",
            "current_option": "",
            "pinned": False,
            "waited_s": rng.choice([0.0, 60.0, 600.0], jobs),
            "entity_used_s": 3600.0 * (np.arange(jobs) % 3),
        }
    )


def traits_are_true(policy: Policy, cases: list[PolicyCase], rng: np.random.Generator) -> None:
    """Check what is declared: in every case where it is said of all problems, in one of some."""
    always = {
        "meets_deadlines": _meets_deadlines,
        "runs_jobs_alone": _runs_jobs_alone,
    }
    at_times = {
        "depends_on_step_size": _depends_on_step_size,
        "leaves_gpus_idle": _leaves_gpus_idle,
        "tells_identical_jobs_apart": _tells_identical_jobs_apart,
    }
    for trait in sorted(policy.traits):
        shown = [(always | at_times)[trait](policy, case, rng) for case in cases]
        if not (all(shown) if trait in always else any(shown)):
            numbers = f"it shows in {sum(shown)} of {len(cases)} problems"
            fail(policy, f"what it declares, {trait!r}", numbers)


def _depends_on_step_size(policy: Policy, case: PolicyCase, rng: np.random.Generator) -> bool:
    there, _ = case.counting_other_steps(rng)
    return _differ(case.solve(policy).X, there.solve(policy).X)


def _meets_deadlines(policy: Policy, case: PolicyCase, rng: np.random.Generator) -> bool:
    """Compare paces, at the speeds that it believes in, with those that meet the deadlines."""
    speed, jobs = case.speed, case.jobs.loc[case.speed.index]
    if not policy.heterogeneity_aware:
        runs, gpus = speed > 0, pd.Series(case.cluster.gpus)
        speed = runs.mul((speed * gpus).sum(axis=1) / (runs * gpus).sum(axis=1), axis=0)
    pace = (case.solve(policy).X * speed).sum(axis=1)
    late_s = jobs["steps_remaining"] / pace - (jobs["deadline_s"] - jobs["elapsed_s"])
    return not (late_s > 1e-6 * jobs["deadline_s"]).any()


def _leaves_gpus_idle(policy: Policy, case: PolicyCase, rng: np.random.Generator) -> bool:
    """Look for idle GPUs on which a job could run more."""
    X = case.solve(policy).X
    idle = pd.Series(case.cluster.gpus) - X.mul(case.jobs["scale_factor"], axis=0).sum()
    waits = X.sum(axis=1) < 1 - SHARE_TOLERANCE
    return bool(((case.speed[waits] > 0).any() & (idle > SHARE_TOLERANCE)).any())


def _runs_jobs_alone(policy: Policy, case: PolicyCase, rng: np.random.Generator) -> bool:
    """Offer a pair that is faster than its jobs are alone."""
    speed = {(job,): [row.tolist()] for job, row in case.speed.iterrows()}
    pair = case.speed.index[:2]
    speed[tuple(pair)] = [[4.0 * case.speed.loc[job].max()] * case.speed.shape[1] for job in pair]
    table = case.jobs.assign(scale_factor=1)
    tensor = ThroughputTensor.of_combinations(speed, list(case.speed.columns))
    X = solve(policy, tensor, workers=case.cluster, jobs=table).X
    return float(X.drop(index=case.speed.index).to_numpy().max()) <= SHARE_TOLERANCE


def _tells_identical_jobs_apart(policy: Policy, case: PolicyCase, rng: np.random.Generator) -> bool:
    copies = case.repeated(3).solve(policy).X.to_numpy().reshape(3, -1)
    return float(np.ptp(copies, axis=0).max()) > SHARE_TOLERANCE


def _differ(one: pd.DataFrame, other: pd.DataFrame) -> bool:
    """Whether two solves gave shares that differ by more than rounding."""
    return bool((one - other).abs().to_numpy().max() > SHARE_TOLERANCE)
