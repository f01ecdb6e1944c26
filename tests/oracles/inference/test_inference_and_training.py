"""Training and inference in one run against both followed tick by tick, speeds from a table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Any

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from tests.oracles.inference.inference_and_training import Both, Table, Training
from tests.oracles.inference.inference_life import Ask, Case
from tests.seeds import each_seed

import apportion as ap
from apportion.estimators.goodput import (
    BatchLimits,
    MeasuredApplication,
    MeasuredTraining,
    ModelledSteps,
    StepTimes,
)
from apportion.mechanism.inference import ProtectTimes
from apportion.sim.elastic.speeds import ElasticSpeeds
from apportion.sim.elastic.trainers import Trainers

if TYPE_CHECKING:
    from collections.abc import Iterator

TICKS = 8
"""Per second. Speeds are 1 or 2 and all other times whole seconds, so each of three jobs that ends
halves the grid of times at most once: eighths are exact."""
WORK = 240.0
FIRST, NEXT = 30, 3


@dataclass(frozen=True)
class InOrder(ap.Policy):
    """As many GPUs as a job may have, jobs of more weight first, whatever a move costs."""

    name, integral = "in_order_by_weight", True
    columns = ("weight",)

    def objective(self, p: Any) -> cp.Maximize:
        worth = p.gpus * (p.speed > 0) * p.weight[:, None]
        return cp.Maximize(cp.sum(cp.multiply(worth, p.X)))


def draw(seed: int) -> tuple[Case, Training]:
    """Return random requests and jobs, in seconds."""
    random = Random(seed)
    nodes, per_node = random.choice((((0, 0, 1, 1), 2), ((0, 0, 0, 1, 1, 1), 3), ((0, 0, 0), 3)))
    services = ["a", "b", "c"][: random.choice((1, 2, 3))]
    span = random.choice((100, 600))
    asks = sorted(
        (
            Ask(random.randrange(span), random.choice(services), random.randint(1, 40))
            for _ in range(random.choice((0, 5, 30, 60)))
        ),
        key=lambda ask: ask.arrival,
    )
    asks = asks or [Ask(0, "a", 1)]
    first, step = random.choice((0, 5, 30)), random.choice((0, 15))
    case = Case(
        asks=tuple(asks),
        nodes=nodes,
        cold=dict.fromkeys(services, random.choice((0, 4, 6))),
        first=first,
        step=step,
        most=first + 3 * step,
        yields=random.choice((0, 3, 8)),
    )
    sizes = [(k, n) for k in range(1, len(nodes) + 1) for n in range(1, 1 + len(set(nodes)))]
    speeds = tuple(
        {size: float(random.choice((1, 2))) for size in sizes} for _ in range(random.choice((1, 3)))
    )
    training = Training(
        arrivals=tuple(sorted(random.choice((0, random.randrange(300))) for _ in speeds)),
        work=WORK,
        speeds=speeds,
        restart=random.choice(("stop_resume", "afe", "edl")),
        first=FIRST,
        next=NEXT,
        interval=60,
        per_node=per_node,
        serving_from=random.choice((0, 0, per_node)) if nodes[-1] else 0,
        lending=True,
    )
    if training.serving_from and random.random() < 0.3:
        training = replace(training, lending=False)
    return case, training


def in_ticks(case: Case, training: Training) -> tuple[Case, Training]:
    """Return the same in ticks."""
    asks = [Ask(a.arrival * TICKS, a.service, a.duration * TICKS) for a in case.asks]
    cold = {name: each * TICKS for name, each in case.cold.items()}
    speeds = tuple({k: v / TICKS for k, v in table.items()} for table in training.speeds)
    return (
        Case(
            *(tuple(asks), case.nodes, cold, TICKS * case.first, TICKS * case.step),
            *(TICKS * case.most, TICKS * case.yields),
        ),
        Training(
            *(tuple(TICKS * each for each in training.arrivals), WORK, speeds, training.restart),
            *(TICKS * FIRST, TICKS * NEXT, TICKS * training.interval, training.per_node),
            *(training.serving_from, training.lending),
        ),
    )


def workload(training: Training) -> ap.ElasticWorkload:
    limits = BatchLimits(64, 64, 1, 64, accumulates=False)
    table = pd.DataFrame({"progress": [WORK], "grad_sqr": 1.0, "grad_var": 1e7})
    steps = ModelledSteps("net", StepTimes(0.1, 0.01), 64)
    net = MeasuredApplication("net", steps, MeasuredTraining("net", {64: table}), limits)
    count = len(training.arrivals)
    jobs = pd.DataFrame(
        {
            "arrival_s": [float(each) for each in training.arrivals],
            "application": "net",
            "gpus": 1,
            "batch": 64,
            "weight": [10.0 ** (count - place) for place in range(count)],
        }
    )
    return ap.ElasticWorkload("drawn", jobs, {"net": net}, restart_s={"net": (FIRST, NEXT)})


@pytest.fixture
def speeds(monkeypatch: pytest.MonkeyPatch) -> list[Table]:
    """Speeds of the jobs by GPUs and nodes, true and believed, in place of those of a profile."""
    tables: list[Table] = []

    def true(self: Any, job: int, held: Any) -> float:
        placement = self._placement(held)
        return tables[job][sum(placement), len(placement)]

    def believed(self: Any, job: int, kind: int, gpus: int, nodes: int) -> float:
        return tables[job][gpus, nodes] if gpus else 0.0

    def rows(self: Any, jobs: list[int]) -> np.ndarray:
        sizes = list(zip(self._options.gpus.tolist(), self._options.nodes.tolist(), strict=True))
        return np.array([[tables[job][size] for size in sizes] for job in jobs])

    monkeypatch.setattr(ElasticSpeeds, "_rate", true)
    monkeypatch.setattr(Trainers, "goodput", believed)
    monkeypatch.setattr(Trainers, "goodputs", rows)
    return tables


def stretches(states: list[list[tuple[str, str | None]]]) -> Iterator[tuple[int, str, str, float]]:
    """Where a GPU goes to another state or service: GPU, both, and when, seconds."""
    for gpu in range(len(states[0])):
        last: tuple[str, str | None] | None = None
        for tick, row in enumerate(states):
            if row[gpu] != last:
                last = row[gpu]
                yield gpu, last[0], last[1] or "", tick / TICKS


def compare(seed: int, tables: list[Table]) -> None:
    """Live a case in both ways."""
    case, training = draw(seed)
    tables[:] = training.speeds
    both = Both(*in_ticks(case, training))
    both.live(40_000)
    requests = pd.DataFrame(
        [(float(a.arrival), a.service, float(a.duration)) for a in case.asks],
        columns=["arrival_s", "service", "duration_s"],
    )
    serving = ap.Serving(
        requests,
        cold_start_s={name: float(each) for name, each in case.cold.items()},
        protect=ProtectTimes(case.first, case.step, case.most),
        yield_seconds=float(case.yields),
        gpus=len(case.nodes) - training.serving_from if training.serving_from else "pooled",
        lending=training.lending,
    )
    cluster = ap.Cluster({"gpu": len(case.nodes)}, gpus_per_machine=training.per_node)
    run = ap.simulate(
        InOrder(), workload(training), cluster, serving=serving, gang_restart=training.restart
    )
    assert run.jobs["completion_s"].tolist() == [job["end"] / TICKS for job in both.jobs]
    assert run.jobs["restarts"].tolist() == [job["starts"] - 1 for job in both.jobs]
    assert run.jobs["paused_s"].tolist() == [each / TICKS for each in both.paused]
    served = run.tables["requests"][["start_s", "finish_s", "gpu", "cold"]].astype(float)
    wanted = [
        [start / TICKS, end / TICKS, gpu, cold and case.cold[case.asks[index].service] > 0]
        for index, (start, end, gpu, cold) in sorted(both.lived.served.items())
    ]
    assert served.to_numpy().tolist() == np.array(wanted, dtype=float).tolist()
    called = run.tables["reclaims"][["time_s", "gpu", "job"]].to_numpy(dtype=float).tolist()
    assert called == [[tick / TICKS, gpu, job] for tick, gpu, job in both.called]
    states = run.tables["gpu_states"]
    found = [
        (int(gpu), str(state).replace("training", "loaned"), str(service), float(from_s))
        for gpu, state, service, from_s in states[["gpu", "state", "service", "from_s"]].to_numpy()
    ]
    fresh = [row for n, row in enumerate(found) if not n or row[:3] != found[n - 1][:3]]
    assert fresh == list(stretches(both.lived.states[:-1]))  # what begins at the end is not told


@pytest.mark.parametrize("seed", each_seed(3, 8))
def test_generated(seed: int, speeds: list[Table]) -> None:
    compare(seed, speeds)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(100, 500, 50))
def test_many_generated(start: int, speeds: list[Table]) -> None:
    for seed in range(start, start + 50):
        compare(seed, speeds)
