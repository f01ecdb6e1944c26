"""`solve_round` in states of simulations: who gets which devices is what the run does next."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
import pytest
from tests.seeds import sampled
from tests.sim.one_round.drawn import drawn_workload
from tests.sim.one_round.watched_runs import Seen, Watch

import apportion as ap
from apportion.mechanism.batch.kai import InFairShareQueues
from apportion.mechanism.batch.kueue import InClusterQueues
from apportion.mechanism.batch.scheduler import InBatch
from apportion.mechanism.leases.renewals import RenewalForecast
from apportion.mechanism.leases.scheduler import LeaseScheduler
from apportion.mechanism.queue import InQueue
from apportion.mechanism.rounds import InRounds
from apportion.mechanism.run_to_completion import RunToCompletion

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from apportion.mechanism.job_table import JobTable

MACHINES = ap.Cluster({"v100": 3, "p100": 2, "k80": 2}, gpus_per_machine=2)
ROWS = ap.Cluster({"v100": 4, "k80": 4}, gpus_per_machine=2, machines_per_rack=1)
RACKS = ap.Cluster.of_racks(2, machines_per_rack=2, gpus_per_machine=2, accelerator="v100")
TWO_TYPES = ap.Cluster.of_racks({"v100": 1, "k80": 2}, machines_per_rack=2, gpus_per_machine=2)


@dataclass(frozen=True)
class Shortest(ap.QueueScheduler):
    """Whoever needs least time is served first, on the fastest type that is free."""

    name = "shortest"

    def queue(self, jobs: JobTable, now_s: float) -> Iterator[tuple[int, Iterable[int]]]:
        left_s = jobs.remaining / jobs.speed.max(axis=1)
        for job in jobs.active[np.argsort(left_s[jobs.active].round(6), kind="stable")].tolist():
            yield job, np.argsort(-jobs.speed[job], kind="stable").tolist()


@dataclass(frozen=True)
class Case:
    """Who decides, by what scheduler, where, and with which settings."""

    decider: Any
    kind: type[Any]
    clusters: tuple[ap.Cluster, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    most_gpus: int = 3
    numbered: bool = False
    """Whether it goes by the numbers of jobs in the run, to break ties or to draw."""

    def __str__(self) -> str:
        label = self.decider if isinstance(self.decider, str) else self.decider.name
        return " ".join([label, *(f"{name}={value}" for name, value in self.settings.items())])


ROUNDS = {"resolve_every": 360.0, "mechanism": "rounds"}
LEASES = {"lease_seconds": 300.0, "network": "table1", "mechanism": "leases"}
SHARED = Case("max_min_fairness", InRounds, (MACHINES,), ROUNDS)
OFFERED = Case("dally_no_wait", LeaseScheduler, (RACKS, TWO_TYPES), LEASES, most_gpus=4)
PLACED = Case("ada_srsf", RunToCompletion, (ROWS,), {}, most_gpus=4)
TIMED: dict[str, Any] = {**LEASES, "timers": "600,1500"}
FAIR = ap.get_scheduler(
    "kueue",
    reclaim_within_cohort="Any",
    fair_sharing=["LessThanOrEqualToFinalShare", "LessThanInitialShare"],
)
POLICIES = (
    "least_mean_completion",
    *("makespan", "finish_time_fairness", "hierarchical_fairness", "fair_over_time", "fifo"),
    *("cohort", "power_capped"),
    "shortest_job_first",
    *("max_total_throughput", "min_cost", "min_cost_slos", "isolated", "proportional"),
    *("nash_welfare", "strategy_proof", "network_sensitive", "sia", "pollux", "deepboot"),
    "optimus",
)

QUICK = [
    SHARED,
    replace(OFFERED, decider="dally_round", settings=TIMED),
    replace(OFFERED, decider="tiresias"),
    PLACED,
    Case(Shortest(), InQueue, (ROWS,)),
]
SLOW = [
    *(
        Case(name, InBatch, (ROWS,))
        for name in ("fcfs", "easy", "conservative", "minimum_completion_time")
    ),
    Case("kueue", InClusterQueues, (ROWS,)),
    Case(FAIR, InClusterQueues, (ROWS,)),
    Case("kai", InFairShareQueues, (ROWS,)),
    *(replace(SHARED, decider=name) for name in POLICIES),
    replace(SHARED, decider="allox", most_gpus=1),
    replace(SHARED, decider="max_min_fairness_agnostic", numbered=True),
    replace(SHARED, decider="fifo_agnostic", numbered=True),
    *(
        replace(SHARED, clusters=(ROWS,), settings={**ROUNDS, **more}, most_gpus=4)
        for more in (
            {"network": "table1"},
            {"leases": False, "preemption_overhead_seconds": 60.0},
            {"carry_over": False, "placement": "first_fit"},
        )
    ),
    *(replace(OFFERED, decider=name, settings=TIMED) for name in ("dally", "dally_manual")),
    *(
        replace(OFFERED, decider=name)
        for name in ("dally_no_wait", "dally_fully_consolidated", "tiresias_continuous", "themis")
    ),
    replace(OFFERED, decider=ap.get_scheduler("gandiva", placement="best_fit")),
    replace(
        OFFERED,
        decider=ap.get_scheduler("dally_no_wait", checkpoint_s_per_gpu=0.0),
    ),
    *(
        replace(OFFERED, decider=name, settings={**LEASES, "resolve_every": 100.0})
        for name in ("max_min_fairness", "makespan", "min_cost_slos", "network_sensitive", "sia")
    ),
    *(replace(PLACED, decider=f"srsf_{most}") for most in (1, 2, 3)),
    replace(PLACED, settings={**PLACED.settings, "placement": "consolidated", "exclusive": True}),
    Case(Shortest(), InQueue, (MACHINES,), {"placement": "first_fit"}),
]


def watched(case: Case, seed: int, jobs: int = 8) -> tuple[Any, ap.Cluster, list[Seen]]:
    """Simulate; return the workload, the cluster, and the states that can be compared."""
    cluster = case.clusters[seed % len(case.clusters)]
    workload = drawn_workload(seed, cluster, jobs=jobs, most_gpus=case.most_gpus)
    watch = Watch(workload, cluster)
    # Every lease is an event of its own then: where a job sleeps is no state that users tell.
    every_lease = patch.object(RenewalForecast, "will_renew", lambda *_: False)
    with watch.on(case.kind), every_lease:
        ap.simulate(case.decider, workload, cluster, **case.settings)
    states = [each for each in watch.seen if each.comparable]
    if case.numbered:
        states = [each for each in states if (each.numbers == np.arange(len(each.ids))).all()]
    return workload, cluster, states


def asked(case: Case, workload: Any, cluster: ap.Cluster, seen: Seen) -> ap.RoundDecision:
    """Ask `solve_round` in a state."""
    settings = dict(case.settings)
    tensor = workload.throughput_of(cluster).loc[seen.ids]
    table = workload.jobs.loc[seen.ids].assign(**seen.columns)
    given: dict[str, Any] = {**seen.given, **settings}
    return ap.solve_round(case.decider, tensor, cluster, jobs=table, **given)


def compare(case: Case, seed: int, jobs: int = 8) -> int:
    """Compare three drawn states; return how many there were."""
    workload, cluster, seen = watched(case, seed, jobs)
    rng = np.random.default_rng(seed)
    chosen = rng.choice(len(seen), min(3, len(seen)), replace=False)
    for place in sorted(chosen.tolist()):
        found = asked(case, workload, cluster, seen[place])
        assert found.running == seen[place].after, (str(case), seed, place)
    return len(chosen)


@pytest.mark.parametrize("case", sampled(QUICK, 2), ids=str)
def test_it_is_the_next_round_of_a_run(case: Case) -> None:
    assert compare(case, seed=0, jobs=4) == 3


@pytest.mark.slow
@pytest.mark.parametrize("case", [*QUICK, *SLOW], ids=str)
def test_it_is_the_next_round_of_many_runs(case: Case) -> None:
    """Some 400 states in all."""
    assert sum(compare(case, seed) for seed in (1, 2, 3)) >= (4 if case.numbered else 8)


def test_all_that_decide_are_compared() -> None:
    compared = {str(case).split()[0] for case in [*QUICK, *SLOW]}
    names = {*ap.policy_table()["name"], *ap.DECIDERS}
    elsewhere = {"rotations"}  # of links
    elsewhere |= {"as_recorded"}  # goes by what a log says of all jobs, whoever is there
    elsewhere |= {"gandiva_packing", *(name for name in names if "space_sharing" in name)}
    elsewhere |= {"lyra", *ap.scheduler_table("configurations")["name"]}  # of elastic jobs
    elsewhere |= {"slurm"}  # goes by the use of those who have left, too
    assert names - elsewhere <= compared
