"""Gavel's own code beside ours, in the same run: ``--gavel DIR`` names a checkout of it."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.speed.problems import TYPES

if TYPE_CHECKING:
    import apportion as ap
    from benchmarks.speed.problems import Case

__all__ = ["POLICIES", "Gavel"]

POLICIES = {
    "max_min_fairness": "max_min_fairness_perf",
    "max_min_fairness_lexicographic": "max_min_fairness_water_filling_perf",
    "makespan": "min_total_duration_perf",
    "finish_time_fairness": "finish_time_fairness_perf",
    "fifo": "fifo_perf",
    "max_total_throughput": "max_sum_throughput_perf",
    "min_cost": "max_sum_throughput_normalized_by_cost_perf",
}
"""What Gavel calls our policies."""


@dataclass(frozen=True)
class Gavel:
    """A checkout of Gavel, if there is one, and the interpreter that runs it."""

    checkout: Path | None = None

    def solve(self, policy: str, case: Case, repeats: int = 1) -> dict[str, Any]:
        """Time one of Gavel's policies on a problem with three types.

        Returns
        -------
        dict
            ``seconds``, median CPU time of `get_allocation`; ``solver``; ``optimal``, whether Gavel
            said that it was; ``X``, its shares, shape (jobs, types). Empty without a checkout.
        """
        if self.checkout is None:
            return {}
        asked: dict[str, Any] = {"speed": case.speed, "scale": case.scale, "gpus": case.gpus}
        asked |= {"weight": np.ones(case.scale.size), "repeats": repeats} | case.columns
        with tempfile.TemporaryDirectory() as folder:
            shares = Path(folder) / "shares.npy"
            result = self._run(folder, policy, asked | {"allocation": str(shares)})
            return result | {"X": np.load(shares)}

    def simulate(
        self, policy: str, workload: ap.Workload, gpus: dict[str, int], resolve_seconds: float
    ) -> dict[str, Any]:
        """Time Gavel's simulator on a workload whose job types its oracle has.

        Returns
        -------
        dict
            ``seconds`` of CPU time, ``rounds``, ``makespan_s``, ``mean_jct_s``, ``solver``. Empty
            without a checkout.
        """
        if self.checkout is None:
            return {}
        jobs = workload.jobs
        asked: dict[str, Any] = {
            "job_type": jobs["job_type"].to_numpy(dtype=str),
            "scale": jobs["scale_factor"].to_numpy(),
            "total_steps": np.maximum(jobs["total_steps"].to_numpy().round(), 1),
            "arrival_s": jobs["arrival_s"].to_numpy(dtype=float),
            "gpus": np.array([gpus[name] for name in TYPES]),
            "resolve_seconds": resolve_seconds,
        }
        with tempfile.TemporaryDirectory() as folder:
            return self._run(folder, policy, asked)

    def _run(self, folder: str, policy: str, asked: dict[str, Any]) -> dict[str, Any]:
        request = Path(folder) / "request.npz"
        np.savez(request, policy=POLICIES[policy], types=np.array(TYPES), **asked)
        script = Path(__file__).with_name("gavel_process.py")
        done = subprocess.run(
            [sys.executable, str(script), str(self.checkout), str(request)],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return result
