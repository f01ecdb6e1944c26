"""Goals S5, S10 and S12: runs of many jobs, beside an earlier commit and beside half as many jobs.

``--leases-past DIR`` names a checkout of commit 53cc48d, ``--rounds-past DIR`` of 53568d1; without
them the rows say that they were not measured.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.speed import past_process
from benchmarks.speed.harness import Row

if TYPE_CHECKING:
    from benchmarks.speed.settings import Settings

__all__ = ["past"]


def past(settings: Settings) -> list[Row]:
    """Rows of all three goals."""
    return [*_leases(settings), *_many(settings), *_dally(settings)]


def _leases(settings: Settings) -> list[Row]:
    """S5: leases beside 53cc48d, and a policy under leases beside rounds."""
    jobs, rows = (20 if settings.quick else 200), []
    for name in ("dally", "tiresias", "gandiva"):
        seconds, before, calls, peer_calls = _both(settings, "leases", name, jobs)
        row = Row(
            *("S5", f"{name}, {jobs} jobs on 8 racks, leases", "<= .8 of 53cc48d"),
            peer="53cc48d",
            peer_s=before,
            called_s=seconds,
            calls=calls,
            peer_calls=peer_calls,
            ratio_goal=1 / 0.8,
        )
        rows.append(row)
    leases, rounds = (
        past_process.measured(how, "max_min_fairness", jobs // 2) for how in ("leases", "rounds")
    )
    row = Row(
        *("S5", f"max_min_fairness, {jobs // 2} jobs on 8 racks, leases", "<= 1.5 x rounds"),
        peer="rounds",
        peer_s=rounds["seconds"],
        called_s=leases["seconds"],
        calls=leases["calls"],
        peer_calls=rounds["calls"],
        ratio_goal=1 / 1.5,
    )
    return [*rows, row]


def _many(settings: Settings) -> list[Row]:
    """S10: thousands of jobs in rounds."""
    jobs = 60 if settings.quick else 3000
    seconds, before, calls, peer_calls = _both(settings, "fleet", "fifo", jobs)
    row = Row(
        *("S10", f"fifo, {jobs} jobs on {past_process.FLEET} GPUs, every event", "half"),
        peer="53568d1",
        peer_s=before,
        called_s=seconds,
        calls=calls,
        peer_calls=peer_calls,
        ratio_goal=2,
    )
    return [row]


def _dally(settings: Settings) -> list[Row]:
    """S12: how seconds grow with the jobs, on as many racks more."""
    rows: list[Row] = []
    for jobs in (20, 40) if settings.quick else (750, 1500):
        found = past_process.measured("grown", "dally", jobs)
        grown = np.log2(found["seconds"] / rows[-1].called_s) if rows else np.nan
        row = Row(
            *("S12", f"dally, {jobs} jobs on as many racks more", "jobs^1.1"),
            called_s=found["seconds"],
            note=f"exponent {grown:.2f}, {found['decisions']:,} offers",
        )
        rows.append(row)
    return rows


def _both(
    settings: Settings, how: str, decider: str, jobs: int
) -> tuple[float, float, int, int | None]:
    """CPU seconds of ours and of the earlier commit, and Python calls of both."""
    ours = past_process.measured(how, decider, jobs)
    checkout = settings.past.get(how)
    if checkout is None:
        return ours["seconds"], np.nan, ours["calls"], None
    script = Path(past_process.__file__)
    done = subprocess.run(
        [sys.executable, str(script), how, decider, str(jobs)],
        env={**os.environ, "PYTHONPATH": str(checkout / "src")},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    before = json.loads(done.stdout.splitlines()[-1])
    return ours["seconds"], before["seconds"], ours["calls"], before["calls"]
