"""Run cases, in this process or several, and keep what came of each as a line of json."""

from __future__ import annotations

import json
import math
import os
import time
import traceback
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import TYPE_CHECKING, Any

from benchmarks.reporting import progress
from benchmarks.trust.ask import ask
from benchmarks.trust.draw import draw
from benchmarks.trust.judge import judge
from benchmarks.trust.permuted import SAME, can_be_permuted, dependence

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

CHUNK = 64
SAMPLE = 10  # of so many cases one is asked again in another order


def names() -> list[str]:
    """Every policy that there is."""
    import apportion as ap

    return [str(name) for name in ap.policy_table()["name"]]


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
    """Run the cases that `file` does not hold yet; return the lines of all."""
    known = {(line["policy"], line["number"]): line for line in _read(file, seed)}
    todo = [case for case in cases if case not in known]
    chunks = [todo[k : k + CHUNK] for k in range(0, len(todo), CHUNK)]
    begun = time.monotonic()
    done = 0
    for lines in _each(chunks, seed, processes):
        _append(file, lines, seed)
        known |= {(line["policy"], line["number"]): line for line in lines}
        done += len(lines)
        left = (time.monotonic() - begun) / done * (len(todo) - done)
        progress(f"{done} of {len(todo)} problems, {left / 60:.0f} min left")
    progress("")
    return [known[case] for case in cases]


def _each(
    chunks: list[list[tuple[str, int]]], seed: int, processes: int
) -> Iterator[list[dict[str, Any]]]:
    if processes == 1:
        for chunk in chunks:
            yield _chunk(chunk, seed)
        return
    with ProcessPoolExecutor(processes) as pool:
        for future in as_completed([pool.submit(_chunk, chunk, seed) for chunk in chunks]):
            yield future.result()


def _chunk(cases: Iterable[tuple[str, int]], seed: int) -> list[dict[str, Any]]:
    return [record(policy, number, seed) for policy, number in cases]


def _append(file: Path | None, lines: list[dict[str, Any]], seed: int) -> None:
    """Write whole lines in one call, so that a killed run leaves at most one torn line."""
    if file is None:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps({"seed": seed} | line) + "\n" for line in lines)
    torn = file.exists() and file.read_bytes()[-1:] not in {b"\n", b""}
    with file.open("ab") as out:
        out.write((b"\n" if torn else b"") + text.encode())
        out.flush()
        os.fsync(out.fileno())


def _read(file: Path | None, seed: int) -> Iterator[dict[str, Any]]:
    if file is None or not file.exists():
        return
    for text in file.read_text(encoding="utf-8").splitlines():
        try:
            line = json.loads(text)
        except json.JSONDecodeError:  # torn when a run was killed
            continue
        if line.get("seed") == seed:
            yield line
