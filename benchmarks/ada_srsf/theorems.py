"""Theorems 1 and 2 of AdaDUAL and the gates against brute force.

``python -m benchmarks.ada_srsf.theorems``: one link, on which a byte costs ``k b + (k - 1) eta``
where k transfers share it. Start times are tried on a grid, and sets of starts exhaustively, by a
simulation of its own; the claims are those of Wang et al., "Communication Contention Aware
Scheduling of Multiple Deep Learning Training Jobs", section 4. Needs no data and takes seconds.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.mechanism.gates import GATES, START, Flow
from apportion.sim.network.models.trained import TABLE_III
from benchmarks.experiment import claimed, verdict
from benchmarks.papers.claims import Figure
from benchmarks.reporting import machine, show, write_csv

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.mechanism.gates import Gate

B_S, ETA_S = 8.53e-10, 2.35e-10
"""Seconds per byte of the paper, and eta of its released code."""

EPS = 1e-9
CASES, QUICK_CASES = 1000, 50
STATES, QUICK_STATES = 150, 5
GRID = 60
BY_NAME = ("at_most_1", "at_most_2", "at_most_3", "ada_dual")
CROWDS = ((1, 1), (1, 3), (2, 1), (2, 3), (3, 3))
"""Transfers under way, and waiting."""


@dataclass
class OneLink:
    """A link as gates see it: transfers under way and waiting, bytes by job."""

    s_per_byte: float
    penalty_s_per_byte: float
    running: dict[int, float] = field(default_factory=dict)
    queue: dict[int, float] = field(default_factory=dict)

    @property
    def flows(self) -> list[Flow]:
        """Transfers under way."""
        return [Flow(job, (0,), left, left) for job, left in self.running.items()]

    @property
    def waiting(self) -> list[Flow]:
        """Transfers that wait, the shortest first."""
        ranked = sorted(self.queue.items(), key=lambda each: each[1])
        return [Flow(job, (0,), size, size) for job, size in ranked]

    def on(self, link: int) -> list[Flow]:
        """Return all under way: there is one link."""
        return self.flows

    def cost(self, k: int) -> float:
        """Return the seconds of a byte that k share the link for."""
        return k * self.s_per_byte + (k - 1) * self.penalty_s_per_byte

    def copy(self) -> OneLink:
        """Return the same state anew."""
        each = dict(self.running), dict(self.queue)
        return OneLink(self.s_per_byte, self.penalty_s_per_byte, *each)

    def to_next_end(self, most_s: float = np.inf) -> float:
        """Go on to the next end, or for so long if that is less, and return the seconds."""
        each_s = self.cost(len(self.running))
        least = min(self.running.values())
        step_s = min(least * each_s, most_s)
        moved = step_s / each_s
        ended = step_s < most_s
        self.running = {
            job: left - moved
            for job, left in self.running.items()
            if not (ended and left <= least * (1 + EPS))
        }
        return step_s


def cost_of_start(size: float, rests: Sequence[float], start_s: float, law: OneLink) -> float:
    """Sum the completion times if one transfer starts at a time, and the others run already."""
    link = OneLink(law.s_per_byte, law.penalty_s_per_byte, dict(enumerate(rests)))
    now_s, total_s, started = 0.0, 0.0, False
    while link.running or not started:
        if not started and (now_s >= start_s or not link.running):
            now_s, started = max(now_s, start_s), True
            link.running[-1] = size
        before = len(link.running)
        now_s += link.to_next_end(np.inf if started else start_s - now_s)
        total_s += now_s * (before - len(link.running))
    return total_s


def played(gate: Gate, state: OneLink) -> float:
    """Sum the completion times if a gate lets waiting transfers in, shortest first."""
    link, now_s, total_s = state.copy(), 0.0, 0.0
    while link.running or link.queue:
        for flow in link.waiting:
            if gate.decide(now_s, flow, link) == START:
                link.running[flow.job] = link.queue.pop(flow.job)
        before = len(link.running)
        now_s += link.to_next_end()
        total_s += now_s * (before - len(link.running))
    return total_s


def best(state: OneLink, now_s: float = 0.0) -> float:
    """Return the least sum of completion times over all sets of starts, now and at every end."""
    if not state.running and not state.queue:
        return 0.0
    found = np.inf
    for many in range(len(state.queue) + 1):
        for chosen in combinations(sorted(state.queue), many):
            link = state.copy()
            link.running |= {job: link.queue.pop(job) for job in chosen}
            if not link.running:
                continue
            before = len(link.running)
            then_s = now_s + link.to_next_end()
            ended = before - len(link.running)
            found = min(found, then_s * ended + best(link, then_s))
    return found


def main() -> None:
    """Print how far closed forms and gates are from brute force, and verdicts."""
    options = _options()
    print(f"Starts on one link, on {machine()}")
    rng = np.random.default_rng(options.seed)
    cases = QUICK_CASES if options.quick else CASES
    rows = [_two(rng, cases, larger_waits=True), _two(rng, cases, larger_waits=False)]
    table = pd.DataFrame([{**row, "exact": _is_exact(row)} for row in rows])
    print(f"{cases} random cases each; starts on a grid of {GRID}, and at every end:")
    show(table)
    print(
        f"\nSum of completion times over the least possible: mean (most), {options.states} states"
    )
    crowds = pd.DataFrame([_crowd(rng, options.states, *crowd) for crowd in CROWDS])
    show(crowds)
    _verdicts(table, crowds, judged=not options.quick)
    write_csv(table, options.out, "ada_srsf_theorems")
    write_csv(crowds, options.out, "ada_srsf_theorems_gates", bars=True)


def _options() -> argparse.Namespace:
    what = argparse.ArgumentParser(description=__doc__)
    what.add_argument("--quick", action="store_true", help=f"{QUICK_CASES} cases")
    what.add_argument("--seed", type=int, default=0)
    what.add_argument("--out", type=Path, metavar="DIR", help="write csv files and pictures")
    options = what.parse_args()
    options.states = QUICK_STATES if options.quick else STATES
    return options


def _law(rng: np.random.Generator) -> OneLink:
    return OneLink(1.0, float(rng.uniform(0.0, 2.0)))


def _starts(rests: Sequence[float], law: OneLink) -> tuple[list[float], list[float]]:
    """Return the times at which the transfers under way end, 0 first, and a grid of times."""
    link = OneLink(law.s_per_byte, law.penalty_s_per_byte, dict(enumerate(rests)))
    ends_s = [0.0]
    while link.running:
        ends_s.append(ends_s[-1] + link.to_next_end())
    return ends_s, np.linspace(0.0, ends_s[-1], GRID).tolist()


def _two(rng: np.random.Generator, cases: int, *, larger_waits: bool) -> dict[str, object]:
    """Check Theorem 1 (the larger waits) or 2 (the smaller waits) against every start."""
    error = worse = 0.0
    wrong = 0
    for _ in range(cases):
        small, large = np.sort(rng.uniform(0.1, 10.0, 2)).tolist()
        law = _law(rng)
        b, eta = law.s_per_byte, law.penalty_s_per_byte
        size, rest = (large, small) if larger_waits else (small, large)
        ends_s, grid_s = _starts([rest], law)
        costs = [cost_of_start(size, [rest], start_s, law) for start_s in ends_s]
        at_once = 2 * (b + eta) * small + b * small + b * large
        formulas = [at_once, b * size + 2 * b * rest]
        error = max(error, *(abs(x - y) / y for x, y in zip(formulas, costs, strict=True)))
        least = min(cost_of_start(size, [rest], start_s, law) for start_s in grid_s)
        worse = max(worse, min(costs) / least - 1)
        starts = not larger_waits and small / large < b / (2 * (b + eta))
        wrong += starts != (costs[0] < costs[1] * (1 - EPS))
    name = "Theorem 1 (the larger waits)" if larger_waits else "Theorem 2 (the smaller waits)"
    return {"claim": name, "largest error": error, "grid better by": worse, "wrong": wrong}


def _crowd(rng: np.random.Generator, states: int, running: int, waiting: int) -> dict[str, object]:
    """Compare the gates with the best of all sets of starts, on sizes of Table III."""
    sizes = np.array([row.megabytes * 1e6 for row in TABLE_III.values()])
    lost: dict[str, list[float]] = {name: [] for name in BY_NAME}
    for _ in range(states):
        left = rng.choice(sizes, running) * rng.uniform(0.0, 1.0, running)
        queue = dict(enumerate(rng.choice(sizes, waiting).tolist(), running))
        state = OneLink(B_S, ETA_S, dict(enumerate(left.tolist())), queue)
        least = best(state)
        for name in BY_NAME:
            lost[name].append(played(GATES.of(name), state) / least)
    row: dict[str, object] = {"under way": running, "waiting": waiting}
    return row | {name: f"{np.mean(all_):.4f} ({max(all_):.2f})" for name, all_ in lost.items()}


def _is_exact(row: dict[Any, Any]) -> bool:
    """Tell whether brute force found nothing wrong with a claim."""
    return bool(row["largest error"] < 1e-9 and row["grid better by"] < 1e-9 and not row["wrong"])


def _verdicts(table: pd.DataFrame, crowds: pd.DataFrame, *, judged: bool) -> None:
    first, second = table.to_dict("records")
    if judged:
        errors = [
            Figure(name, max(row["largest error"], row["grid better by"], float(row["wrong"])))
            for name, row in (("1", first), ("2", second))
        ]
        claimed("ada_srsf", "theorems", errors)
    one = crowds[crowds["waiting"] == 1]
    dual = one["ada_dual"].tolist()
    claim = "AdaDUAL is optimal for one waiting transfer beside one under way"
    verdict(claim, dual[0].startswith("1.0000"), f"AdaDUAL {', '.join(dual)}")


if __name__ == "__main__":
    main()
