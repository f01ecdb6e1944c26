from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from tests.seeds import ranges_of_seeds
from tests.sim.leasing.packing import MACHINE, NETWORK, RACK
from tests.sim.leasing.textbook import Job, Terms, Textbook

import apportion as ap
from apportion.mechanism.leases import AutoTunedTimers, ManualTimers, OfferScheduler
from apportion.mechanism.leases.rules import (
    DelayScheduling,
    FullyConsolidated,
    NetworkAgnostic,
    NoWait,
    Rule,
    SkewBased,
)
from apportion.mechanism.orders import (
    ByArrival,
    DiscretizedLeastAttainedService,
    LeastAttainedService,
    MostSlowedFirst,
    Order,
    RoundRobin,
    UnfairestFirst,
)

MODELS = ("VGG11", "AlexNet", "ResNet50", "BERT-large")
ORDERS: dict[str, Order] = {
    "slowed": MostSlowedFirst(),
    "service": LeastAttainedService(),
    "queues": DiscretizedLeastAttainedService(),
    "unfair": UnfairestFirst(),
    "arrival": ByArrival(),
    "turns": RoundRobin(),
}
RULES: dict[str, Rule] = {
    "delay": DelayScheduling(),
    "consolidated": FullyConsolidated(),
    "agnostic": NetworkAgnostic(),
    "skew": SkewBased(),
    "at once": NoWait(),
}


@dataclass(frozen=True)
class ByTier:
    """Overheads by tier."""

    overheads: tuple[float, float, float]
    name: str = "by tier"

    def overhead(self, job_type: str, shape: tuple[tuple[int, ...], ...]) -> float:
        if len(shape) > 1:
            return self.overheads[NETWORK]
        machines = sum(map(len, shape))
        return self.overheads[RACK if machines > 1 else MACHINE]


def by_model(rng: np.random.Generator, values: list[int]) -> dict[str, float]:
    """Draw seconds by model, in half of the cases the same for all."""
    if rng.random() < 0.5:
        return dict.fromkeys(MODELS, float(rng.choice(values)))
    return {model: float(rng.choice(values)) for model in MODELS}


def terms_of(rng: np.random.Generator, order: str, rule: str) -> Terms:
    racks, machines = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    return Terms(
        shape=(racks, machines, int(rng.choice([1, 1, 2, 4]))),
        order=order,
        rule=rule,
        overheads=(0.0, 0.5, 2.0) if rng.random() < 0.5 else (0.125, 0.75, 7.0),
        lease_s=float(rng.choice([600, 1000])),
        checkpoint_s=by_model(rng, [0, 1, 7]),
        restore_s=float(rng.choice([0, 0, 5])),
        overhead_s=by_model(rng, [0, 0, 40]),
        timers_s=(float(rng.choice([0, 700, 2000])), float(rng.choice([0, 1500, 9000]))),
        history_s=None if rng.random() < 0.4 else float(rng.choice([3000, 20000])),
        moves=bool(rng.random() < 0.3),
    )


def jobs_of(rng: np.random.Generator, terms: Terms) -> list[Job]:
    sizes = [1, *range(terms.shape[2] + 1, terms.gpus + 1)]
    count = int(rng.integers(1, 8))
    arrival_s = np.sort(rng.choice([0, 0, 301, 1107, 2500], count)).tolist()
    gangs, models = rng.choice(sizes, count).tolist(), rng.choice(MODELS, count).tolist()
    ideal_s = rng.uniform(50, 5000, count).tolist()
    return [Job(k, gangs[k], models[k], float(arrival_s[k]), ideal_s[k]) for k in range(count)]


def simulated(terms: Terms, jobs: list[Job]) -> pd.DataFrame:
    index = pd.MultiIndex.from_tuples(sorted({(job.model, job.gpus) for job in jobs}))
    table = pd.DataFrame(
        {
            "job_type": [job.model for job in jobs],
            "scale_factor": [job.gpus for job in jobs],
            "total_steps": [4 * job.ideal_s for job in jobs],
            "arrival_s": [job.arrival_s for job in jobs],
        }
    )
    racks, machines, gpus = terms.shape
    manual = ManualTimers(*terms.timers_s)
    tuned = AutoTunedTimers(terms.history_s or 1.0, initial=terms.timers_s)
    scheduler = OfferScheduler(
        "drawn",
        order=ORDERS[terms.order],
        rule=RULES[terms.rule],
        timers=manual if terms.history_s is None else tuned,
        lease_s=terms.lease_s,
        checkpoint_s_per_gpu=terms.checkpoint_s,
        restore_s_per_gpu=terms.restore_s,
        overhead_s=terms.overhead_s,
        migrates=terms.moves,
    )
    cluster = ap.Cluster.of_racks(racks, machines_per_rack=machines, gpus_per_machine=gpus)
    load = ap.Workload("drawn", table, pd.DataFrame({"gpu": 4.0}, index))
    return ap.simulate(scheduler, load, cluster, network=ByTier(terms.overheads)).jobs


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("seeds", ranges_of_seeds(1, 4))
def test_leases_are_those_of_the_textbook(order: str, rule: str, seeds: range) -> None:
    for seed in seeds:
        rng = np.random.default_rng([seed, *f"{order} {rule}".encode()])
        terms = terms_of(rng, order, rule)
        jobs = jobs_of(rng, terms)
        run = simulated(terms, jobs)
        Textbook(terms, jobs).run()
        for name in ("start_s", "completion_s", "preemptions"):
            expected = [getattr(job, name) for job in jobs]
            np.testing.assert_allclose(run[name], expected, atol=1e-4, err_msg=f"{name}, {terms}")
        tiers = run[["machine_s", "rack_s", "network_s"]].to_numpy()
        np.testing.assert_allclose(tiers, [job.tier_s for job in jobs], atol=1e-4)
        np.testing.assert_allclose(run["compute_s"], [job.ideal_s for job in jobs], rtol=1e-9)
