"""Random jobs on few GPUs and links, with many ties, and how an engine plays them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from apportion.mechanism.gates import AdaDual, AtMost, Gate, TimeShift
from apportion.sim.links import (
    FairSharing,
    Iteration,
    LinkSharing,
    Phase,
    Send,
    SharedCost,
    all_reduced,
    in_phases,
)


class Job(NamedTuple):
    iteration: Iteration
    times: int
    gpus: list[int]
    links: list[int]
    turn: tuple[int, int]
    arrival_s: float


class Case(NamedTuple):
    gpus: int
    links: int
    sharing: LinkSharing
    gate: Gate
    jobs: list[Job]


GATES: list[Gate] = [
    *(AtMost(n) for n in (1, 2, 3, np.inf)),
    *(AtMost(n, "pair") for n in (1, 2)),
    *(AdaDual(), AdaDual("first")),
]


def drawn(seed: int) -> Case:
    """Draw a case; times are quarters of seconds mostly, so that much happens at once."""
    rng = np.random.default_rng(seed)
    gpus, per_server, racks = (int(rng.integers(*span)) for span in ((2, 13), (1, 5), (1, 4)))
    servers = -(-gpus // per_server)
    links, count = servers + racks, int(rng.integers(1, 12))
    gate = GATES[rng.integers(len(GATES))]
    if rng.random() < 0.15:
        gate = TimeShift({j: (float(rng.uniform(0, 0.5)), 0.75) for j in range(0, count, 2)})
    sharing: LinkSharing = FairSharing(tuple(rng.uniform(1, 3, links)))
    if rng.random() < 0.7:
        over = "task" if rng.random() < 0.6 else "cluster"
        eta = float(rng.choice([0, 0.25, 0.5]))
        sharing = SharedCost(float(rng.uniform(0.5, 1.5)), eta, 0.0, over, ((links - 1, 2.0),))
    jobs = []
    for _ in range(count):
        size = int(rng.integers(1, min(gpus, 6) + 1))
        on = np.sort(rng.choice(gpus, size, replace=False)).tolist()
        mine = sorted({gpu // per_server for gpu in on})
        uplinks = sorted({servers + server % racks for server in mine})
        over_links = [*mine, *(uplinks if len(uplinks) > 1 else [])] if len(mine) > 1 else []
        turn = (int(rng.integers(1, 4)), int(rng.integers(0, 3)))
        arrival_s = float(rng.choice([0, 0, 0.5, 1.25]) + rng.integers(0, 6))
        jobs.append(Job(_iteration(rng), int(rng.integers(1, 9)), on, over_links, turn, arrival_s))
    return Case(gpus, links, sharing, gate, jobs)


def _iteration(rng: np.random.Generator) -> Iteration:
    def amount() -> float:
        return float(rng.integers(1, 5) / 4 if rng.random() < 0.7 else rng.uniform(0.1, 1))

    kind = rng.integers(4)
    if kind == 2:
        most = float(rng.choice([np.inf, 0.7]))
        return in_phases([Phase(amount(), amount(), most), Phase(0, amount(), 1.3), Phase(1.0)])
    if kind == 3:
        tasks = int(rng.integers(1, 5))
        sends = tuple(Send(amount(), task + 1) for task in range(tasks))
        return Iteration(tuple(amount() for _ in range(tasks)), sends).checked("a drawn job")
    size = amount() * int(rng.integers(0, 2))
    return all_reduced(amount(), amount(), size, startup_s=float(rng.choice([0, 0.05])))


def play(engine: Any, case: Case) -> dict[int, float]:
    """Let the jobs of a case run, one of them stopped in between; return when they are done."""
    order = sorted(range(len(case.jobs)), key=lambda j: case.jobs[j].arrival_s)
    done: dict[int, float] = {}
    now_s, here, stopped = 0.0, 0, False
    while len(done) < len(order):
        while here < len(order) and case.jobs[order[here]].arrival_s <= now_s + 1e-9:
            number = order[here]
            job = case.jobs[number]
            ready_s = now_s + 0.3 * (number % 3 == 0)
            engine.add(number, *job[:5], ready_s)
            here += 1
        until_s = case.jobs[order[here]].arrival_s if here < len(order) else np.inf
        if here == len(order) and not stopped:
            until_s = now_s + 1.7
        now_s, finished = engine.run(now_s, until_s, to_completion=True)
        done |= dict(finished)
        if here == len(order) and not finished and not stopped:
            stopped, number = True, min(set(range(len(order))) - done.keys())
            engine.drop(number)
            engine.add(number, *case.jobs[number][:5], now_s)
    return done
