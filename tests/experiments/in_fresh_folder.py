"""Use parts of one's own from a folder that is no part of the project; the test beside runs it.

Beside it lies ``parts.py``, the classes of the page on contributing. Each part is given by value
and by name, to `simulate`, and to `compare` and `sweep` with two workers; what differs is printed.
With the word ``main`` the parts are of ``__main__``, as those of a script, else of a module.
"""

from __future__ import annotations

import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd

import apportion as ap

own: Any = sys.modules["__main__"]
if "main" in sys.argv:
    exec(compile(Path("parts.py").read_text(), "parts.py", "exec"), vars(own))
else:
    own = import_module("parts")


def loads() -> dict[str, tuple[Any, ap.Cluster]]:
    """Return small workloads with their clusters."""
    drawn = ap.generate_workload(jobs=5, seed=3, jobs_per_hour=30, scale_factors="gavel")
    jobs = drawn.jobs.assign(total_steps=drawn.jobs["total_steps"] * 0.1)
    types = ap.Workload(drawn.name, jobs, drawn.throughputs)
    drawn = ap.generate_contended_workload(scale=0.01)
    sending = ap.Workload(drawn.name, drawn.jobs.iloc[:12], drawn.throughputs)
    racks: dict[str, Any] = {"machines_per_rack": 2, "gpus_per_machine": 4, "accelerator": "v100"}
    rows = "".join(f"{5 + each},9{each},{1 + each % 4},red\n" for each in range(4))
    Path("queue.csv").write_text(f"submitted,ran,gpus,team\n{rows}")
    return {
        "types": (types, ap.Cluster({"v100": 8, "k80": 8}, gpus_per_machine=4)),
        "racks": (types, ap.Cluster.of_racks(2, **racks)),
        "sending": (sending, ap.Cluster({"v100": 16}, gpus_per_machine=4)),
        "elastic": (ap.generate_elastic_workload(3, seed=1), ap.Cluster({"t4": 4})),
        "queue": (ap.read_workload("queue.csv"), ap.Cluster({"v100": 8}, gpus_per_machine=4)),
    }


FREE: dict[str, Any] = {"preemption_overhead_seconds": 0.0}
ROUNDS = {"mechanism": "rounds", **FREE}
LEASES = {"mechanism": "leases", "network": "none", **FREE}


def ways() -> dict[str, tuple[str, Any, dict[str, Any]]]:
    """Return how each part is used: on which jobs, who decides, and the settings."""
    by_order = ap.OfferScheduler("by_order", order=own.ShortestIteration())
    by_its_name = ap.OfferScheduler("by_order", order="shortest_iteration")
    spread = ap.OfferScheduler("spread_out", order="fifo", placement=own.Spread)
    spread_by_name = ap.OfferScheduler("spread_out", order="fifo", placement="spread")
    return {
        "policy, value": ("types", own.CappedThroughput(), ROUNDS),
        "policy, name": ("types", "capped_throughput", ROUNDS),
        "policy under leases, value": ("racks", own.CappedThroughput(), LEASES),
        "policy under leases, name": ("racks", "capped_throughput", LEASES),
        "queue, value": ("types", own.ShortestLeft(), FREE),
        "queue, name": ("types", "shortest_left", FREE),
        "scheduler, value": ("types", own.NobodyStops(), FREE),
        "scheduler, name": ("types", "nobody_stops", FREE),
        "mechanism, value": ("types", "max_min_fairness", {"mechanism": own.Lottery()}),
        "mechanism, name": ("types", "max_min_fairness", {"mechanism": "lottery"}),
        "network, value": ("racks", "fifo", {"network": own.Hops(), **ROUNDS}),
        "network, name": ("racks", "fifo", {"network": "hops", **ROUNDS}),
        "rates, value": ("racks", "fifo", {"network": own.OneUplink(), **ROUNDS}),
        "rates, name": ("racks", "fifo", {"network": "one_uplink", **ROUNDS}),
        "placement, value": ("types", "fifo", {"placement": own.Spread, **ROUNDS}),
        "placement, name": ("types", "fifo", {"placement": "spread", **ROUNDS}),
        "placement under leases, value": ("racks", spread, LEASES),
        "placement under leases, name": ("racks", spread_by_name, LEASES),
        "placement of iterations, value": (
            "sending",
            "ada_srsf",
            {"placement": own.Spread, **FREE},
        ),
        "placement of iterations, name": ("sending", "ada_srsf", {"placement": "spread", **FREE}),
        "gate, value": ("sending", "ada_srsf", {"gate": own.SmallestFirst(), **FREE}),
        "gate, name": ("sending", "ada_srsf", {"gate": "smallest_first", **FREE}),
        "order, value": ("sending", "ada_srsf", {"order": own.ShortestIteration(), **FREE}),
        "order, name": ("sending", "ada_srsf", {"order": "shortest_iteration", **FREE}),
        "order under leases, value": ("racks", by_order, LEASES),
        "order under leases, name": ("racks", by_its_name, LEASES),
        "elastic rule, value": ("elastic", own.OneEach(), {}),
        "elastic rule, name": ("elastic", "one_each", {}),
        "reader, known by its columns": ("queue", "fifo", ROUNDS),
    }


def differences(load: Any, cluster: ap.Cluster, who: Any, how: dict[str, Any]) -> list[str]:
    """Return what is not the same in one run and with two workers."""
    alone = ap.simulate(who, load, cluster, **how)
    compared = ap.compare([who], load, cluster, n_jobs=2, **how)
    swept = ap.sweep([who], load, cluster, seeds=[0, 1], n_jobs=2, **how).summary()
    (run,) = compared.runs.values()
    pd.testing.assert_frame_equal(alone.jobs, run.jobs)
    found = []
    if swept["mean_jct_s"].iloc[0] != compared.summary()["mean_jct_s"].iloc[0]:
        found.append(f"sweep has {swept['mean_jct_s'].tolist()}")
    compared.save("results")
    return [*found, alone.jobs.to_csv()]


def main() -> int:
    """Print what fails; 0 if nothing does."""
    on, failed, tables = loads(), 0, {}
    for name, (load, who, how) in ways().items():
        try:
            *found, tables[name] = differences(*on[load], who, how)
            part, _, by = name.partition(", ")
            if by == "name" and tables[name] != tables.get(f"{part}, value"):
                found.append("not as by value")
        except Exception:
            found = [traceback.format_exc()]
        failed += bool(found)
        print(name, *(found or ["as it should be"]), sep=": ", flush=True)
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
