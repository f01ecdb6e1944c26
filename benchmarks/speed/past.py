"""Goals S5, S10 and S12: runs of many jobs, beside an earlier commit and beside half as many jobs.

The earlier commits come out of the history of the checkout; where there is none, the rows say that
they were not measured.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import apportion as ap
from benchmarks.speed import past_process
from benchmarks.speed.harness import Row, cpu_seconds_once

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.speed.settings import Settings

__all__ = ["grown", "leases", "many"]

_ROOT = Path(__file__).parents[2]
_BEFORE = {"leases": "53cc48d", "fleet": "53568d1", "crowd": "53568d1"}
"""The commit beside which each kind of run is timed."""


def leases(settings: Settings) -> list[Row]:
    """S5: leases beside 53cc48d, and a policy under leases beside rounds."""
    jobs, rows = (20 if settings.quick else 200), list[Row]()
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
    leased, rounds = (
        past_process.measured(how, "max_min_fairness", jobs // 2) for how in ("leases", "rounds")
    )
    row = Row(
        *("S5", f"max_min_fairness, {jobs // 2} jobs on 8 racks, leases", "<= 1.5 x rounds"),
        peer="rounds",
        peer_s=rounds["seconds"],
        called_s=leased["seconds"],
        calls=leased["calls"],
        peer_calls=rounds["calls"],
        ratio_goal=1 / 1.5,
    )
    return [*rows, row]


def many(settings: Settings) -> list[Row]:
    """S10: thousands of jobs in rounds, drawn ones beside an earlier commit, and of a log."""
    rows = []
    sizes = (("fleet", "fifo", 60),) if settings.quick else _MANY
    for how, policy, jobs in sizes:
        seconds, before, calls, peer_calls = _both(settings, how, policy, jobs)
        row = Row(
            *("S10", f"{policy}, {jobs} jobs on {past_process.GPUS[how]} GPUs, every event"),
            f"half of {_BEFORE[how]}",
            peer=_BEFORE[how],
            peer_s=before,
            called_s=seconds,
            calls=calls,
            peer_calls=peer_calls,
            ratio_goal=2,
        )
        rows.append(row)
    return [*rows, *_of_a_log(settings)]


_MANY = (("fleet", "fifo", 3000), ("crowd", "max_min_fairness", 80_000))


def _of_a_log(settings: Settings) -> list[Row]:
    """The first jobs of Microsoft's cluster 02 under fifo, where the log is there."""
    jobs = 60 if settings.quick else 3000
    folder = None if settings.data is None else settings.data.resolve().parent / "microsoft_itp"
    file = None if folder is None else folder / "cluster02.csv.gz"
    what = f"fifo, first {jobs} jobs of ITP's cluster 02 on 128 GPUs"
    if file is None or not file.is_file():
        return []
    workload = ap.read_workload(file, limit=jobs)
    ap.simulate(
        "fifo", workload.head(2), {"v100": 128}, preemption_overhead_seconds=0.0
    )  # imports what it needs
    seconds, run = cpu_seconds_once(
        lambda: ap.simulate("fifo", workload, {"v100": 128}, preemption_overhead_seconds=0.0)
    )
    said = f"{run.solves:,} solves"
    return [Row("S10", what, "<= 3 s", called_s=seconds, seconds_goal=3.0, note=said)]


def grown(settings: Settings) -> list[Row]:
    """S12: how seconds grow with the jobs, on as many racks more."""
    rows: list[Row] = []
    for jobs in (20, 40) if settings.quick else (375, 750, 1500, 3000):
        found = past_process.measured("grown", "dally", jobs)
        power = np.log2(found["seconds"] / rows[-1].called_s) if rows else np.nan
        row = Row(
            *("S12", f"dally, {jobs} jobs on as many racks more", "jobs^1.1"),
            called_s=found["seconds"],
            exponent=float(power),
            exponent_goal=1.1,
            note=f"exponent {power:.2f}, {found['decisions']:,} offers",
        )
        rows.append(row)
    return rows


@contextmanager
def _checkout(commit: str) -> Iterator[Path | None]:
    """Take a commit out of the history; None where it is not there."""
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "archive.tar"
        asked = ["git", "-C", str(_ROOT), "archive", "-o", str(archive), commit]
        if subprocess.run(asked, stderr=subprocess.DEVNULL, check=False).returncode:
            yield None
            return
        shutil.unpack_archive(archive, folder, filter="tar")
        yield Path(folder)


def _both(
    settings: Settings, how: str, decider: str, jobs: int
) -> tuple[float, float, int, int | None]:
    """CPU seconds of ours and of the earlier commit, and Python calls of both."""
    ours = past_process.measured(how, decider, jobs)
    with _checkout(_BEFORE[how]) as checkout:
        if checkout is None or settings.quick:
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
