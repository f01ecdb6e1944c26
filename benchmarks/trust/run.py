"""Run cases, in this process or several, and keep what came of each as a line of json."""

from __future__ import annotations

import json
import math
import time
import traceback
from typing import TYPE_CHECKING, Any

from apportion.experiments.machine.backends import Where
from apportion.experiments.machine.cells import Cell, Work
from apportion.experiments.machine.run import carry_out
from apportion.experiments.machine.store import Store
from apportion.sim.fingerprint import fingerprint
from benchmarks.trust.ask import ask
from benchmarks.trust.draw import draw
from benchmarks.trust.judge import judge
from benchmarks.trust.permuted import SAME, can_be_permuted, dependence

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SAMPLE = 10  # of so many cases one is asked again in another order


def names() -> list[str]:
    """Every policy that gives shares of time."""
    import apportion as ap

    every = [str(name) for name in ap.policy_table()["name"]]
    return [name for name in every if not ap.get_policy(name).integral]


def plan(problems: int, policies: list[str]) -> list[tuple[str, int]]:
    """Return policy and number of each case, the policies in turn."""
    return [(policies[k % len(policies)], k // len(policies)) for k in range(problems)]


def record(policy: str, number: int, seed: int) -> dict[str, Any]:
    """Draw, ask and judge one case; everything that came of it, but for the time."""
    case = draw(policy, number, seed)
    line: dict[str, Any] = {
        "policy": policy,
        "number": number,
        "jobs": case.jobs,
        "types": len(case.types),
        "decades": round(case.decades, 2),
        "shape": case.shape,
        "route": case.route,
        "options": sorted(k for k, v in case.options.items() if v is not None),
        "arguments": sorted(case.arguments),
        "traits": case.traits,
    }
    begun = time.process_time()
    try:
        answer = ask(case)
    except Exception as error:  # whatever it is, the problem has an answer and there is none
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {str(error)[:200]} ({where.name})"
        return line | {"outcome": "failed", "notes": [text], "seconds": _since(begun)}
    asked = _since(begun)
    begun = time.process_time()
    verdict = judge(case, answer)
    if number % SAMPLE == 1 and can_be_permuted(case) and not verdict.faults:
        apart = dependence(case, answer)
        if apart > SAME:
            verdict.blame("order", apart, f"in another order shares differ by {apart:.3g}")
    return line | {
        "outcome": "answered",
        "status": answer.status,
        "gap": answer.gap,
        "faults": verdict.faults,
        "flagged": verdict.flagged,
        "wrong": verdict.wrong,
        "certified": verdict.certified,
        "undecided": verdict.undecided,
        "error": _finite(verdict.error),
        "ours": _finite(verdict.ours),
        "theirs": _finite(verdict.theirs),
        "notes": verdict.notes,
        "seconds": asked,
        "oracle_seconds": _since(begun),
    }


def _finite(value: float) -> float | None:
    """Json knows no infinities."""
    return float(value) if math.isfinite(value) else None


def _since(begun: float) -> float:
    return round(time.process_time() - begun, 4)


def run(
    cases: list[tuple[str, int]], seed: int, file: Path | None, processes: int
) -> list[dict[str, Any]]:
    """Run the cases that `file` does not hold yet; return the lines of all.

    Raises
    ------
    ApportionError
        When all others have run, if a case could not be drawn or judged.
    """
    code = fingerprint(record)
    cells = [_cell(code, policy, number, seed) for policy, number in cases]
    store = Store(file)
    store.open(resume=True)
    where = Where(n_jobs=processes)
    outcome = carry_out(cells, Work(_record, None, _packed, _unpacked), store, where, progress=None)
    for failure in outcome.failures.values():
        raise failure.error() from failure.cause()
    return [outcome.results[cell.fingerprint] for cell in cells]


def _cell(code: str, policy: str, number: int, seed: int) -> Cell:
    label = {"policy": policy, "number": number}
    return Cell(label, fingerprint(code, policy, number, seed), (policy, number, seed))


def _record(task: tuple[str, int, int], _report: object, _shared: object) -> dict[str, Any]:
    return record(*task)


def _packed(_cell: Cell, line: dict[str, Any]) -> dict[str, str]:
    # As text, for a store takes no infinite numbers.
    return {"line": json.dumps(line)}


def _unpacked(_cell: Cell, stored: Mapping[str, Any]) -> dict[str, Any]:
    line: dict[str, Any] = json.loads(stored["line"])
    return line
