"""Every public call with arguments that are right, of which one is then made wrong."""

from __future__ import annotations

from dataclasses import fields
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from tests.malformed.values import bad_table, bad_value

import apportion as ap
from apportion.mechanism.leases.timers import AutoTunedTimers, ManualTimers
from apportion.policies.registry import BUILT_IN, SPECIALISED
from apportion.sim.network import get_network
from apportion.sim.network.interconnect import Dimension, Interconnect

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path


class Call(NamedTuple):
    """A call and arguments with which it works."""

    name: str
    function: Callable[..., Any]
    arguments: dict[str, Any]


def malformed(rng: random.Random, calls: list[Call]) -> tuple[str, Callable[[], Any]]:
    """Draw a call, and make one or two of its arguments wrong."""
    call = rng.choice(calls)
    given = dict(call.arguments)
    for name in rng.sample(list(given), k=min(len(given), rng.choice([1, 1, 1, 2]))):
        right = given[name]
        table = isinstance(right, pd.DataFrame) and right.size and rng.random() < 0.8
        given[name] = bad_table(rng, right) if table else bad_value(rng)
    return f"{call.name}: {_shown(given)}", lambda: call.function(**given)


def _shown(given: dict[str, Any]) -> str:
    return ", ".join(f"{name}={str(type(value))[8:-2]}" for name, value in given.items())


def all_calls(folder: Path) -> list[Call]:
    """Every public call."""
    parts = (_solving(), _tables(), _choices(), _scheduling(), _simulating(folder), _estimating())
    return [call for part in parts for call in part]


def speeds() -> pd.DataFrame:
    """Steps/s of three jobs."""
    return pd.DataFrame({"v": [4.0, 2.0, 1.0], "k": [1.0, 1.0, 0.5]}, index=list("abc"))


def jobs() -> pd.DataFrame:
    """What else is known of them."""
    columns = {"weight": [1.0, 2.0, 1.0], "scale_factor": [1, 1, 2], "steps_remaining": [1e3] * 3}
    return pd.DataFrame(columns, index=list("abc"))


def workload() -> ap.Workload:
    """Draw a workload of three jobs."""
    return ap.generate_workload(jobs=3, jobs_per_hour=20.0, seed=1)


def _solving() -> list[Call]:
    options = {
        "group": True,
        "second_stage": True,
        "fallback": "raise",
        "gang_packing": True,
    }
    right = {"throughput_tensor": speeds(), "workers": {"v": 2, "k": 2}, "jobs": jobs()}
    usage = pd.DataFrame(1.0, index=list("abc"), columns=["v", "k"])
    told = {"throughputs": speeds(), "jobs": jobs(), "cluster": {"v": 2, "k": 2}}
    return [
        Call("solve", ap.solve, {"policy": "max_min_fairness", **right, **options}),
        Call("solve", ap.solve, {"policy": "makespan", **right}),
        Call("solve", ap.solve, {"policy": "fifo", **right, "resources": (), "pairs": None}),
        Call("Resource", _with_resource, {"name": "disk", "capacity": 2.0, "usage": usage}),
        Call("session", _session, {**told, "policy": "max_min_fairness", "remove": ["a"]}),
        Call("session", _session, {**told, "policy": "fifo", "update": jobs()[["weight"]]}),
        Call("check_policy", ap.check_policy, {"policy": "fifo"}),
    ]


def _with_resource(name: Any, capacity: Any, usage: Any) -> Any:
    resource = ap.Resource(name, capacity, usage)
    return ap.solve("max_min_fairness", speeds(), workers={"v": 2, "k": 2}, resources=[resource])


def _session(
    policy: Any, throughputs: Any, jobs: Any, cluster: Any, remove: Any = (), update: Any = None
) -> Any:
    with ap.session(policy, cluster) as opened:
        opened.add(throughputs, jobs)
        if update is not None:
            opened.update(update)
        opened.remove(remove)
        return opened.solve()


def _tables() -> list[Call]:
    rows = ap.ThroughputTensor.of(speeds()).to_frame()
    pairs = ap.generate_pair_throughputs(accelerators=["v100"])
    few = pairs.select(pairs.keys.tolist()[:3])
    parts = {"own": few.own, "alone": few.alone, "keys": few.keys, "accelerators": ("v100",)}
    combined = {"combinations": {("a",): [[1.0]], ("b",): [[2.0]]}, "options": ["v"]}
    cluster = {"gpus": {"v": 2}, "gpus_per_machine": 4, "machines_per_rack": 2}
    known = pd.DataFrame({"job_type": ["x"], "scale_factor": [1]})
    return [
        Call("ThroughputTensor", ap.ThroughputTensor, {"values": rows}),
        Call("ThroughputTensor.of", ap.ThroughputTensor.of, {"table": speeds()}),
        Call("of_combinations", ap.ThroughputTensor.of_combinations, combined),
        Call("PairThroughputs", ap.PairThroughputs, parts),
        Call("of_frame", ap.PairThroughputs.of_frame, {"frame": few.to_frame()}),
        Call("select", few.select, {"keys": few.keys.tolist()[:1]}),
        Call("lookup", few.lookup, {"jobs": known, "accelerators": ["v100"]}),
        Call("Cluster", ap.Cluster, {**cluster, "prices_per_gpu_hour": {"v": 1.0}}),
        Call("Cluster.of", ap.Cluster.of, {"value": "v=1"}),
        Call("Cluster.parse", ap.Cluster.parse, {"text": "v=1"}),
        Call("of_racks", ap.Cluster.of_racks, {"racks": 2, "accelerator": "gpu"}),
        Call("check_jobs", ap.check_jobs, {"jobs": jobs()}),
    ]


def _choices() -> list[Call]:
    calls = [
        Call("get_policy", ap.get_policy, {"policy": "fifo"}),
        Call("get_scheduler", ap.get_scheduler, {"scheduler": "dally", "lease_s": 60.0}),
    ]
    for timers in (ManualTimers, AutoTunedTimers):
        own = {each.name: each.default for each in fields(timers)}
        calls.append(Call(timers.__name__, timers, own))
    for policy in (*BUILT_IN, *SPECIALISED):
        own = {each.name: getattr(policy(), each.name) for each in fields(policy())}  # type: ignore[arg-type]
        calls.append(Call(policy.__name__, policy, own))
    for name in ap.scheduler_table("leases")["name"]:
        scheduler = ap.get_scheduler(name)
        options = {
            each.name: getattr(scheduler, each.name)
            for each in fields(scheduler)
            if each.name not in ("name", "source", "of_elastic")
        }
        calls.append(
            Call(name, lambda name=name, **given: ap.get_scheduler(name, **given), options)
        )
    return calls


def _scheduling() -> list[Call]:
    racks = ap.Cluster.of_racks(2)
    dimension = {"tier": "rack", "topology": "ring", "bandwidth_bytes_per_s": 1e9, "latency_s": 0.0}
    parts = {"machine": (Dimension("machine", "ring", 1e9),)}
    parts |= {name: Dimension(name, "ring", 1e9) for name in ("rack", "network")}  # type: ignore[misc]
    return [
        Call("Dimension", Dimension, {**dimension, "size": 2}),
        Call("Interconnect", Interconnect, parts),
        Call("get_network", get_network, {"network": "table1", "cluster": racks, "profiles": None}),
    ]


def _simulating(folder: Path) -> list[Call]:
    drawn = {
        "jobs": 3,
        "jobs_per_hour": 20.0,
        "arrivals": "poisson",
        "days": None,
        "scale_factors": "single",
        "durations": "gavel",
        "weights": "equal",
        "deadlines": {2.0: 1.0},
        "accelerators": ["v100"],
        "reference": "v100",
    }
    racks = {"arrivals": "batch", "jobs": 3, "seed": 0, "span_s": 1e3, "compute": "profiled"}
    rounds = {
        "policy": "fifo",
        "workload": workload(),
        "cluster": {"v100": 2},
        "mechanism": "rounds",
        "round_seconds": 360.0,
        "resolve_seconds": 0.0,
        "preemption_overhead_seconds": 5.0,
        "placement": "consolidated",
        "placement_sensitive": False,
        "carry_over": None,
        "leases": True,
        "tiers": None,
    }
    leased = {
        "policy": "dally",
        "workload": ap.generate_rack_workload(jobs=2, max_scale_factor=8),
        "cluster": ap.Cluster.of_racks(1, machines_per_rack=2),
        "network": "none",
        "lease_seconds": 3600.0,
        "checkpoint_seconds_per_gpu": 1.0,
    }
    several = {"policies": ["fifo"], "workload": workload(), "cluster": {"v100": 2}, "n_jobs": 1}
    swept = {"policies": ["fifo"], "workloads": {"jobs": 2}, "cluster": {"v100": 2}, "seeds": [0]}
    made = workload()
    whole = {"name": "w", "jobs": made.jobs, "throughputs": made.throughputs, "notes": ("a",)}
    file = folder / "right.csv"
    made.save(file)
    kept = ap.simulate("fifo", made, "v100=2").save_schedule(folder / "schedule.csv.gz")
    read = {"path": file, "throughputs": None, "format": "jobs", "seed": 0, "limit": 2}
    return [
        Call("generate_workload", ap.generate_workload, drawn),
        Call("generate_rack_workload", ap.generate_rack_workload, {**racks, "max_scale_factor": 9}),
        Call("simulate", ap.simulate, rounds),
        Call("simulate", ap.simulate, leased),
        Call("compare", ap.compare, {**several, "round_seconds": 360.0, "seed": 0, "resume": True}),
        Call("sweep", ap.sweep, {**swept, "loads": [1.0], "n_jobs": 1, "resample": False}),
        Call("Workload", ap.Workload, {**whole, "pairs": None, "unconsolidated": None}),
        Call("head", made.head, {"count": 1}),
        Call("fitting", made.fitting, {"cluster": "v100=3"}),
        Call("describe", made.describe, {"cluster": "v100=3", "reference": "v100"}),
        Call("save", made.save, {"path": folder / "saved.csv"}),
        Call("resample", ap.resample, {"workload": made, "seed": 0}),
        Call("read_schedule", ap.read_schedule, {"path": kept, "policy": None}),
        Call("read_workload", ap.read_workload, {**read, "reference": "v100", "missing": "drop"}),
    ]


def _estimating() -> list[Call]:
    pairs = ap.generate_pair_throughputs(accelerators=["v100"])
    drawn = {"seed": 0, "accelerators": ["v100"], "scale_factors": (1,)}
    asked = {"oracle": pairs, "references": 3, "measured_share": 0.5, "seed": 0, "noise": 0.0}
    cells = {"references": np.ones((2, 2, 1)), "measured": np.full((1, 2, 1), 0.5)}
    speeds = {"v100": [4.0, 3.0, np.nan], "k80": [1.0, 2.0, 1.0]}
    table = pd.DataFrame(speeds, index=["a", "b", "c"])
    filled = {"measured": table, "references": table, "noise": 0.1, "optimism": 0.0}
    options_of_beliefs = {"optimism": 1.0, "noise": 0.1, "rows": "job", "seed": 0}
    runs = {"job": [1, 2], "column": [0, 1], "steps": [50.0, 60.0], "seconds": [40.0, 50.0]}
    return [
        Call("SpeedModel", _predicted, {"table": table, "rows": table, "noise": 0.1}),
        Call("estimate_speeds", ap.estimate_speeds, filled),
        Call("EstimatedSpeeds", ap.EstimatedSpeeds, {"references": table, **options_of_beliefs}),
        Call("EstimatedSpeeds.observe", partial(_observed, table), runs),
        Call("generate_pair_throughputs", ap.generate_pair_throughputs, drawn),
        Call("estimate_pairs", ap.estimate_pairs, asked),
        Call("InterferenceEstimator", _estimated, cells),
    ]


def _predicted(table: Any, rows: Any, **options: Any) -> Any:
    return ap.SpeedModel(**options).fit(table).predict(rows)


def _observed(table: Any, job: Any, column: Any, steps: Any, seconds: Any) -> Any:
    gangs: Any = SimpleNamespace(job=job, column=column)
    return ap.EstimatedSpeeds(table).observe(gangs, steps, seconds)


def _estimated(references: Any, measured: Any) -> Any:
    return ap.InterferenceEstimator().fit(references, measured).predict()
