"""Use each part of examples/example_parts by its name; `test_installed_parts` runs this script.

It prints what the runs come to, as JSON. With the word ``workers`` each is compared with the same
in two processes, with ``command`` with what a command writes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

import apportion as ap
from apportion.cli import main

if TYPE_CHECKING:
    from collections.abc import Sequence

TITLE = "GPU-hours by job type"


def gangs(job_type: str, steps: list[float], sizes: list[int], steps_per_s: float) -> ap.Workload:
    """Return gangs that come together."""
    jobs = {"total_steps": steps, "scale_factor": sizes, "job_type": job_type, "arrival_s": 0.0}
    keys = [(job_type, size) for size in sorted(set(sizes))]
    index = pd.MultiIndex.from_tuples(keys, names=["job_type", "scale_factor"])
    speeds = pd.DataFrame({"v100": steps_per_s}, index=index)
    return ap.Workload(job_type, pd.DataFrame(jobs), speeds)


def written() -> dict[str, Any]:
    """Return the workloads, written to files too."""
    loads: dict[str, Any] = {
        "two": gangs("own", [7200.0, 7200.0], [2, 2], 2.0),  # an hour each
        "sending": gangs("example_model", [60.0, 30.0, 120.0], [8, 2, 8], 3.0),
        "elastic": ap.generate_elastic_workload(3, seed=1),
        "communicating": ap.generate_communicating_workload(3, seed=1),
    }
    for name, load in loads.items():
        load.save(f"{name}.csv")
    Path("minutes.csv").write_text("came,ran,took\n5,90,1\n7.5,30,4\n")
    return {**loads, "minutes": ap.read_workload("minutes.csv", format="example_minutes")}


class Uses:
    """Comparisons, here and in the other ways that are asked for.

    Parameters
    ----------
    ways
        Words out of ``workers`` and ``command``.
    """

    def __init__(self, ways: Sequence[str]) -> None:
        self.ways, self.loads = ways, written()
        self.found: dict[str, Any] = {}

    def __call__(
        self,
        kind: str,
        policies: list[str],
        load: str = "two",
        cluster: str = "v100=2",
        per_machine: int = 4,
        **settings: Any,
    ) -> None:
        """Compare policies by settings that name a part of a kind; keep what they come to."""
        where = ap.Cluster(ap.Cluster.of(cluster).gpus, gpus_per_machine=per_machine)
        here = ap.compare(policies, self.loads[load], where, n_jobs=1, **settings)
        jct_s = [run.jobs["jct_s"].round(6).tolist() for run in here.runs.values()]
        self.found[kind] = jct_s
        self.found[f"{kind} devices"] = here.schedule()["devices"].astype(str).tolist()
        assert f"<h2>{TITLE}</h2>" in here.to_html(sections=["example_section"])
        if "workers" in self.ways:
            there = ap.compare(policies, self.loads[load], where, n_jobs=2, **settings)
            pd.testing.assert_frame_equal(here.jobs(), there.jobs())
        if "command" in self.ways:
            words = ["--policies", ",".join(policies), "--cluster", cluster]
            words += ["--gpus-per-machine", str(per_machine), "--jobs", "1", "--out", kind]
            words += ["--workload", f"{load}.csv"]
            named = {name: each for name, each in settings.items() if name != "mechanism"}
            inside = ",".join(f"{name}={value}" for name, value in named.items())
            mechanism = settings.get("mechanism", "") + (f"({inside})" if inside else "")
            words += ["--mechanism", mechanism] if mechanism else []
            assert main(["compare", *words]) == 0, words
            told = pd.read_csv(Path(kind) / "jobs.csv")["jct_s"].round(6).tolist()
            assert told == [each for run in jct_s for each in run], (kind, told, jct_s)
            assert f"<h2>{TITLE}</h2>" in (Path(kind) / "report.html").read_text()


def use_all(ways: Sequence[str]) -> dict[str, Any]:
    """Use a part of every kind."""
    use = Uses(ways)
    use("policies", ["example_total", "example_total_agnostic"], cluster="v100=4")
    use("deciders: a queue", ["example_queue"])
    use("deciders: offers", ["example_offers"], per_machine=2, network="none", lease_seconds=1e6)
    use("deciders: a rule", ["example_rule", "afs"], "elastic", "t4=2")
    use("mechanisms", ["max_min_fairness"], mechanism="example_rounds")
    use("its setting", ["max_min_fairness"], mechanism="example_rounds", tea_seconds=600.0)
    use("networks", ["fifo"], mechanism="rounds", network="example_network")
    use("placements", ["fifo"], cluster="v100=8", placement="example_placement")
    use("trained_models", ["ada_srsf", "srsf_1"], "sending", "v100=8")
    use("orders", ["srsf_1"], "sending", "v100=8", order="example_order")
    use("gates", ["ada_srsf"], "sending", "v100=8", gate="example_gate")
    links = {"mechanism": "rounds", "network": "cassini", "topology": "example_topology"}
    use("topologies", ["fifo"], "communicating", "a100=12", 1, **links)
    use("trace_formats", ["fifo"], "minutes", "v100=8")
    jobs = use.loads["minutes"].jobs
    use.found["the trace"] = [jobs["arrival_s"].tolist(), jobs["scale_factor"].tolist()]
    if "command" in ways:
        assert main(["policies"]) == main(["policies", "example_rounds"]) == 0
    return use.found


if __name__ == "__main__":
    print(json.dumps(use_all(sys.argv[1:])))
