"""Several drivers on one folder: processes that are forked, killed and started again.

``python tests/experiments/drivers.py DRAWS [FIRST]`` prints, as JSON, what was wrong in drawn
cases. It forks, so that loading modules takes its time once.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from apportion.errors import SolveError
from apportion.experiments.machine import leases
from apportion.experiments.machine.backends import Where
from apportion.experiments.machine.cells import Cell, Work
from apportion.experiments.machine.run import carry_out
from apportion.experiments.machine.store import FILE, Store


class Case(NamedTuple):
    """What is drawn: cells, who has which, who is killed when, and whether on another machine."""

    cells: int
    drivers: list[list[int]]
    killed_after_s: list[float | None]
    elsewhere: list[bool]


def drawn(seed: int) -> Case:
    """Draw a case; half of them have kills."""
    rng = np.random.default_rng(seed)
    cells, drivers = int(rng.integers(1, 16)), int(rng.integers(2, 5))
    every = [list(range(cells)) for _ in range(drivers)]
    if rng.random() < 0.3:  # each has some of the cells, in an order of its own
        every = [rng.permutation(cells)[: rng.integers(1, cells + 1)].tolist() for _ in every]
    kills: list[float | None] = [
        float(rng.uniform(0.0, 0.4)) if rng.random() < 0.4 else None for _ in every
    ]
    if seed % 2:
        kills = [None] * drivers
    return Case(cells, every, kills, [bool(rng.random() < 0.4) for _ in every])


def compute(task: tuple[int, str], report: object, shared: Any) -> float:
    """Square a number, say that it was done, and fail where it is divisible by seven."""
    number, folder = task
    with (Path(folder) / "begun").open("a") as stream:
        stream.write(f"{number}\n")
    time.sleep(0.01 + 0.003 * (number % 5))
    if number % 7 == 6:
        raise SolveError(f"not {number}")
    return float(number) ** 2


def drive(folder: Path, numbers: list[int], elsewhere: bool) -> None:
    """Carry out cells as one driver, and check what comes of it."""
    if elsewhere:
        leases.__dict__["this_machine"] = lambda: f"machine {os.getpid()}"
    work = Work(
        compute, None, lambda cell, result: {"it": result}, lambda cell, record: record["it"]
    )
    cells = [Cell({"number": each}, f"cell {each}", (each, str(folder))) for each in numbers]
    store = Store(folder / FILE)
    store.open(resume=True)
    outcome = carry_out(cells, work, store, Where(n_jobs=1), progress=False)
    fails = {each for each in numbers if each % 7 == 6}
    assert outcome.results == {f"cell {each}": each**2 for each in set(numbers) - fails}
    assert set(outcome.failures) == {f"cell {each}" for each in fails}
    for mark, failure in outcome.failures.items():
        said = str(failure)
        assert said.startswith(f"SolveError: not {mark.removeprefix('cell ')}, raised in ")


def forked(folder: Path, numbers: list[int], elsewhere: bool) -> int:
    """Start a driver; return its process."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            drive(folder, numbers, elsewhere)
            status = 0
        finally:
            os._exit(status)
    return pid


def wrong_in(case: Case, folder: Path) -> list[str]:
    """Let the drivers work, and return what is not as it should be."""
    started = time.monotonic()
    pids = [forked(folder, *each) for each in zip(case.drivers, case.elsewhere, strict=True)]
    kills = zip(case.killed_after_s, pids, strict=True)
    for after_s, pid in sorted((after_s, pid) for after_s, pid in kills if after_s is not None):
        time.sleep(max(0.0, started + after_s - time.monotonic()))
        os.kill(pid, signal.SIGKILL)
    wrong, killed = [], 0
    for pid in pids:
        _, state = os.waitpid(pid, 0)
        killed += os.WIFSIGNALED(state)
        if not os.WIFSIGNALED(state) and os.WEXITSTATUS(state):
            wrong.append("a driver came to other results")
    if killed:  # and again, alone
        _, state = os.waitpid(forked(folder, [*range(case.cells)], elsewhere=False), 0)
        wrong += ["the last driver failed"] if state else []
    begun = Counter(map(int, (folder / "begun").read_text().split()))
    lines = (folder / FILE).read_text().splitlines()
    marks = Counter(json.loads(line)["fingerprint"] for line in lines)
    fails = {number for number in range(case.cells) if number % 7 == 6}
    # What failed is tried again by a driver that comes later, and by no other.
    often = {each for each in fails if begun[each] > len(pids) + (killed > 0)}
    again = sum(count - 1 for number, count in begun.items() if number not in fails)
    asked = {each for numbers in case.drivers for each in numbers}
    if often or again > killed or (killed and max(begun.values()) > len(pids) + 1):
        wrong.append(f"begun {dict(begun)} after {killed} kills")
    kept = {number: marks.pop(f"cell {number}", 0) for number in range(case.cells)}
    expected = set(range(case.cells)) if killed else asked
    right = all(
        kept[each] >= 1 if each in fails else killed or kept[each] == 1 for each in expected
    )
    if marks or not right or not expected <= {each for each in kept if kept[each]}:
        wrong.append(f"kept {kept}")
    left = sorted(each.name for each in folder.iterdir() if each.name not in ("begun", FILE))
    if left and not (killed and any(case.elsewhere)):  # whose end nobody sees for a minute
        wrong.append(f"left: {left}")
    return wrong


def main() -> None:
    """Try so many cases."""
    leases.SECONDS_TO_EXPIRE, leases._SECONDS_TO_RENEW = 2.0, 0.2
    draws, first = int(sys.argv[1]), int(sys.argv[2]) if sys.argv[2:] else 0
    found: dict[int, list[str]] = {}
    for seed in range(first, first + draws):
        with tempfile.TemporaryDirectory(prefix="drivers-") as name:
            wrong = wrong_in(drawn(seed), Path(name))
        found |= {seed: wrong} if wrong else {}
    print(json.dumps({"draws": draws, "wrong": found}))


if __name__ == "__main__":
    main()
