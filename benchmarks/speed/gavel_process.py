"""Gavel's own policies and simulator, timed in a process of their own.

``python gavel_process.py CHECKOUT REQUEST`` with the path of a checkout of Gavel and of a numpy
archive. It imports nothing of apportion: Gavel has modules called `policies` and `utils`, too. What
Gavel needs only to run jobs on real machines (grpc, psutil and the like) is replaced by dummies.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
import io
import json
import logging
import sys
import time
import warnings
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import cvxpy as cp
import numpy as np

_DUMMIES = (
    *("matrix_completion", "psutil", "grpc", "runtime", "runtime.rpc"),
    *("runtime.rpc.scheduler_server", "runtime.rpc.scheduler_client"),
)


def main(checkout: str, request: str) -> None:
    """Time what the request asks for, and print it as a line of JSON."""
    sys.modules.update({name: MagicMock() for name in _DUMMIES})
    folder = Path(checkout) / "scheduler"
    sys.path[:0] = [str(folder), str(folder / "policies")]
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    with np.load(request) as archive:
        asked = dict(archive)
    solver = "ECOS" if "ECOS" in cp.installed_solvers() else "CLARABEL"
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        run = _simulate if "arrival_s" in asked else _solve
        result = run(asked, str(asked["policy"]), solver, folder)
    optimal = "not optimal" not in said.getvalue()
    print(json.dumps(result | {"solver": solver, "optimal": optimal}))


def _solve(asked: dict[str, Any], name: str, solver: str, folder: Path) -> dict[str, Any]:
    """Time one `get_allocation`; with an allocation file, write the shares of single jobs."""
    get_policy, job = _of("utils").get_policy, _of("job_id_pair").JobIdPair
    names = [str(each) for each in asked["types"]]
    ids = [job(place, None) for place in range(len(asked["speed"]))]
    speeds = {
        each: dict(zip(names, line, strict=True))
        for each, line in zip(ids, asked["speed"].tolist(), strict=True)
    }
    facts = {
        key: dict(zip(ids, asked[key].tolist(), strict=True))
        for key in ("scale", "weight", "steps_remaining", "elapsed_s", "isolated_elapsed_s")
    }
    facts["scale"] = {each: int(gpus) for each, gpus in facts["scale"].items()}
    gpus = {key: int(count) for key, count in zip(names, asked["gpus"], strict=True)}
    seconds = []
    allocation: dict[Any, Any] = {}
    for _ in range(int(asked["repeats"])):
        policy = get_policy(name, solver=solver, seed=0)
        _accept_arrays(policy)
        policy._cumulative_isolated_time = dict(facts["isolated_elapsed_s"])
        arguments = _arguments(name, facts)
        started = time.process_time()
        allocation = policy.get_allocation(speeds, facts["scale"], *arguments, gpus)
        seconds.append(time.process_time() - started)
    if "allocation" in asked:
        X = [[allocation[each][key] for key in names] for each in ids]
        np.save(str(asked["allocation"]), np.array(X))
    return {"seconds": float(np.median(seconds))}


def _arguments(name: str, facts: dict[str, dict[Any, float]]) -> list[dict[Any, float]]:
    """What `get_allocation` of a policy takes between scale factors and cluster."""
    if name.startswith("min_total_duration"):
        return [facts["steps_remaining"]]
    if name.startswith("finish_time_fairness"):
        return [facts["weight"], facts["elapsed_s"], facts["steps_remaining"]]
    return [facts["weight"]]


def _accept_arrays(policy: Any) -> None:
    """Let an older `float` in: numpy 2 turns no array of one number into a number."""
    module = sys.modules[type(policy).__module__]
    module.__dict__["float"] = lambda value: builtins.float(np.asarray(value).item())


def _simulate(asked: dict[str, Any], name: str, solver: str, folder: Path) -> dict[str, Any]:
    """Time a simulation of a trace; count its rounds."""
    scheduler, job = _of("scheduler"), _of("job").Job
    counted = MagicMock()
    plan = scheduler.Scheduler._schedule_jobs_on_workers

    def planned(self: Any, *arguments: Any, **options: Any) -> Any:
        counted()
        return plan(self, *arguments, **options)

    scheduler.Scheduler._schedule_jobs_on_workers = planned
    jobs = [
        job(None, str(kind), "", "", "", int(steps), None, scale_factor=int(gpus))
        for kind, gpus, steps in zip(
            asked["job_type"], asked["scale"], asked["total_steps"], strict=True
        )
    ]
    cluster = {key: int(count) for key, count in zip(asked["types"], asked["gpus"], strict=True)}
    cluster = {str(key): count for key, count in cluster.items()}
    started = time.process_time()
    run = scheduler.Scheduler(
        _of("utils").get_policy(name, solver=solver, seed=0),
        simulate=True,
        throughputs_file=str(folder / "simulation_throughputs.json"),
        seed=0,
        time_per_iteration=360,
        minimum_time_between_allocation_resets=int(asked["resolve_seconds"]),
    )
    run.simulate(cluster, asked["arrival_s"].tolist(), jobs)
    seconds = time.process_time() - started
    return {
        "seconds": seconds,
        "rounds": counted.call_count,
        "makespan_s": float(run.get_current_timestamp()),
        "mean_jct_s": float(run.get_average_jct() or np.nan),
    }


def _of(module: str) -> Any:
    """Import a module of Gavel's."""
    return importlib.import_module(module)


if __name__ == "__main__":
    main(*sys.argv[1:])
