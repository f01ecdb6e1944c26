"""What a script registers, in worker processes as well: the results are those of one process."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

import joblib
import pandas as pd
import pytest

import apportion as ap
from apportion.errors import InputError
from apportion.experiments.machine.shipping import OwnParts
from apportion.mechanisms import MECHANISMS
from apportion.policies import BUILT_IN
from apportion.registry import Registry
from apportion.report import REPORT_SECTIONS
from apportion.sim.network.registry import NETWORKS
from apportion.sim.traces.read import TRACE_FORMATS

if TYPE_CHECKING:
    from pathlib import Path

LOADED = (
    *(resolve_name(each.home) for each in MECHANISMS.values()),
    BUILT_IN,
    REPORT_SECTIONS,
    TRACE_FORMATS,
    ap.DECIDERS,
)
"""With them every registry is loaded that a run looks at."""
RACKS = ap.Cluster.of_racks(1, machines_per_rack=2, gpus_per_machine=2, accelerator="v100")
ON_LINKS = ap.Cluster({"a100": 12}, gpus_per_machine=1)
QUEUE = "at,ran\n0,4000\n50,900\n700,2000\n"


@dataclass(frozen=True)
class Own:
    """A cell that leaves a thing of one's own in `own`, and how a run asks for it."""

    cell: str
    policies: tuple[str, ...] = ("fifo", "max_min_fairness")
    workload: str = "rigid"
    cluster: ap.Cluster = RACKS
    settings: dict[str, Any] = field(default_factory=dict)


OWN = {
    "apportion.policies": Own(
        """
from dataclasses import dataclass
@dataclass(frozen=True)
class own(ap.Policy):
    name = "own"
    heterogeneity_aware: bool = True
    def objective(self, p):
        import cvxpy as cp
        return cp.Maximize(p.total(p.throughput))
""",
        ("own", "own_agnostic"),
    ),
    "apportion.placements": Own(
        """
from apportion.mechanism.placements import PLACEMENTS, Strategy
class own(Strategy):
    name = "own"
    def choose(self, gang, devices):
        assert "consolidated" in PLACEMENTS and "own" in PLACEMENTS  # the registry of the worker
        free = devices.free_for(gang)
        numbers = sorted(one for each in free.emptiest_first() for one in free.free_on(each))
        return numbers[-gang.gpus :] if len(numbers) >= gang.gpus else None
""",
        settings={"placement": "own"},
    ),
    "apportion.mechanisms": Own(
        """
class Long:
    name = "long"
    def parts(self, decider, about):
        return ap.Rounds(seconds=500.0).parts(decider, about)
own = Long()
""",
        settings={"mechanism": "own"},
    ),
    "apportion.networks": Own(
        """
class Slow:
    name = "slow"
    def overhead(self, job_type, shape):
        return 2.0
own = lambda profiles: Slow()
""",
        settings={"mechanism": "rounds", "network": "own"},
    ),
    "apportion.topologies": Own(
        """
from apportion.sim.network.topology.named import leaf_spine
own = lambda: leaf_spine(
    "mine", servers=12, gpus_per_server=1, servers_per_leaf=4, server_gbps=25.0
)
""",
        workload="communicating",
        cluster=ON_LINKS,
        settings={"mechanism": "rounds", "network": "cassini", "topology": "own"},
    ),
    "apportion.trace_formats": Own(
        """
import pandas as pd
from apportion.sim.traces.assemble import from_durations
from apportion.sim.traces.read import TraceFormat
from apportion.sim.traces.table import parse_table
def read_queue(file, options):
    table = parse_table(file)
    jobs = pd.DataFrame({"arrival_s": table.numbers("at"), "duration_s": table.numbers("ran")})
    return from_durations(file, jobs.assign(scale_factor=1).reset_index(drop=True), options)
own = TraceFormat("a queue", ("at", "ran"), read_queue)
""",
        workload="trace",
    ),
    "apportion.trained_models": Own(
        """
from apportion.sim.network.models.trained import TRAINED
from dataclasses import replace
own = replace(TRAINED["VGG-16"], memory_gb=2.0)
""",
        ("ada_srsf", "srsf_1"),
        workload="contended",
    ),
    "apportion.gates": Own(
        """
from apportion.mechanism.gates import GATES
class Often:
    name = "often"
    def decide(self, now_s, flow, links):
        return GATES["at_most_2"].decide(now_s, flow, links)
own = Often()
""",
        ("ada_srsf", "srsf_1"),
        workload="contended",
        settings={"gate": "own"},
    ),
    "apportion.deciders": Own(
        """
from dataclasses import dataclass, replace
import numpy as np
from apportion.mechanism.leases.rules import NoWait
class Never(NoWait):
    pass
@dataclass(frozen=True)
class Last(ap.QueueScheduler):
    name = "own"
    def queue(self, jobs, now_s):
        assert "own" in ap.DECIDERS
        for job in jobs.active[::-1]:
            yield job, np.argsort(-jobs.speed[job], kind="stable")
own = Last()
""",
        ("own",),
    ),
    "apportion.orders": Own(
        """
from dataclasses import dataclass
@dataclass(frozen=True, repr=False)
class LargestFirst(ap.Order):
    rule = "most GPUs first"
    def turn(self, job):
        return 0, -job.gpus
own = LargestFirst()
""",
        ("ada_srsf", "srsf_1"),
        workload="contended",
        settings={"order": "own"},
    ),
    "apportion.report_sections": Own(
        """
from apportion.report import Section
def own(comparison):
    return Section("Mine", comparison.summary())
"""
    ),
}
"""For every registry. A new one belongs here."""


def run_cell(group: str) -> Any:
    """Run a cell as a script or a notebook does, and put what it makes into the registry."""
    names: dict[str, Any] = {"__name__": "__main__", "ap": ap}
    exec(compile(OWN[group].cell, "<cell>", "exec"), names)
    Registry.all[group]["own"] = names["own"]
    return names["own"]


def test_what_is_registered_is_tried_of_every_registry() -> None:
    ours = {group for group in Registry.all if group.startswith("apportion.")}
    assert ours == set(OWN), "Say in OWN how a run asks for a thing of each registry."


@pytest.mark.usefixtures("own_registry")
@pytest.mark.parametrize("group", sorted(OWN))
def test_a_cell_that_runs_again_replaces_what_it_registered(group: str) -> None:
    registry = Registry.all[group]
    first, second = run_cell(group), run_cell(group)
    assert registry["own"] is second
    assert registry.own()["own"] is second
    if isinstance(first, type):
        assert first is not second
    for built_in in set(registry) - set(registry.own()):
        with pytest.raises(InputError, match=f"already a {registry.kind} '{built_in}'"):
            registry[built_in] = second
        assert registry[built_in] is not second
    with pytest.raises(InputError, match=registry.kind):
        registry["own"] = 5


def workload_of(kind: str, folder: Path) -> Any:
    if kind == "trace":
        (folder / "queue.csv").write_text(QUEUE)
        return folder / "queue.csv"
    if kind == "elastic":
        return ap.generate_elastic_workload(jobs=3, seed=0)
    if kind == "communicating":
        return ap.generate_communicating_workload(3, seed=1)
    if kind == "contended":
        index = pd.MultiIndex.from_tuples([("own", 2)], names=["job_type", "scale_factor"])
        jobs = pd.DataFrame({"job_type": "own", "scale_factor": 2, "total_steps": [60.0, 30.0]})
        return ap.Workload("gangs of two", jobs, pd.DataFrame({"v100": [3.0]}, index))
    return ap.generate_workload(jobs=4, seed=1, jobs_per_hour=6)


FIGURES = ["mean_jct_s", "makespan_s"]


def outcomes(group: str, n_jobs: int, folder: Path) -> list[pd.DataFrame]:
    """Return what a sweep and, where the registry is asked in it, a comparison come to."""
    case = OWN[group]
    if case.workload == "contended":  # jobs train a model that only this process knows
        for each in ("apportion.trained_models", group):
            run_cell(each)
    asked = case.policies, workload_of(case.workload, folder), case.cluster
    swept = ap.sweep(*asked, n_jobs=n_jobs, progress=False, **case.settings)
    assert swept.errors().empty, swept.errors().to_string()
    found = [swept.table()[["policy", *FIGURES]]]
    if case.workload != "trace":
        compared = ap.compare(*asked, n_jobs=n_jobs, progress=False, **case.settings)
        found.append(compared.summary()[FIGURES])
    return found


@pytest.mark.usefixtures("own_registry")
@pytest.mark.slow
@pytest.mark.parametrize("where", ["threading", "loky"])
@pytest.mark.parametrize("group", sorted(OWN))
def test_workers_know_what_a_cell_has_registered(group: str, where: str, tmp_path: Path) -> None:
    for _ in range(2):  # the workers of the first time are used again
        run_cell(group)
        here = outcomes(group, 1, tmp_path)
        with joblib.parallel_config(backend=where):
            there = outcomes(group, 2, tmp_path)
        for mine, theirs in zip(here, there, strict=True):
            pd.testing.assert_frame_equal(mine, theirs)


DECIDERS = """
from dataclasses import dataclass, replace
from apportion.elastic import ElasticRule
from apportion.mechanism.leases.rules import NoWait
class Never(NoWait):
    pass
@dataclass(frozen=True, repr=False)
class Mine(ElasticRule):
    name = "own_rule"
    def choose(self, jobs):
        return ap.DECIDERS["afs"].choose(jobs)
ap.DECIDERS["own_rule"] = Mine()
ap.DECIDERS["own_offers"] = replace(ap.DECIDERS["themis"], name="own_offers", rule=Never())
"""


@pytest.mark.usefixtures("own_registry")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "workload", "cluster"),
    [
        (["own_rule", "tiresias"], "elastic", ap.Cluster.of("v100=8")),
        (["own_offers", "dally_no_wait"], "usual", ap.Cluster.of_racks(1, accelerator="v100")),
    ],
)
def test_workers_know_deciders_of_every_mechanism(
    names: list[str], workload: str, cluster: ap.Cluster, tmp_path: Path
) -> None:
    exec(compile(DECIDERS, "<cell>", "exec"), {"__name__": "__main__", "ap": ap})
    load = workload_of(workload, tmp_path)
    here, there = (ap.compare(names, load, cluster, n_jobs=n, progress=False) for n in (1, 2))
    pd.testing.assert_frame_equal(here.summary()[FIGURES], there.summary()[FIGURES])


@pytest.mark.thorough
@pytest.mark.usefixtures("own_registry")
def test_processes_know_everything_at_once(tmp_path: Path) -> None:
    for group in OWN:
        run_cell(group)
    groups = ["apportion.trace_formats", "apportion.deciders"]
    here, there = ([outcomes(group, n, tmp_path) for group in groups] for n in (1, 2))
    for mine, theirs in zip(here, there, strict=True):
        for one, other in zip(mine, theirs, strict=True):
            pd.testing.assert_frame_equal(one, other)


@pytest.mark.usefixtures("own_registry")
def test_parts_of_another_process_take_the_place_of_those_before() -> None:
    made = {group: run_cell(group) for group in sorted(OWN)}
    sent = replace(OwnParts.of_here(), home="elsewhere")
    OwnParts.of_here().take_in()  # of this very process: nothing is replaced
    assert all(Registry.all[group]["own"] is each for group, each in made.items())
    NETWORKS["later"] = NETWORKS["own"]
    sent.take_in()
    assert "later" not in NETWORKS
    assert {group for group, each in Registry.all.items() if "own" in each.own()} == set(OWN)
    assert NETWORKS["own"] is not made["apportion.networks"]
    assert NETWORKS["own"]({}).overhead("any", ((1,),)) == 2.0
    assert "table1" in NETWORKS


class _Locked:
    """Makes no network, and cannot be sent."""

    def __init__(self, lock: Any) -> None:
        self.lock = lock

    def __call__(self, profiles: Any) -> Any:
        raise NotImplementedError


def test_what_cannot_be_sent_stays_here() -> None:
    lock = threading.Lock()
    NETWORKS["locked"] = _Locked(lock)
    try:
        assert "locked" not in {name for _, name, _ in OwnParts.of_here().parts}
    finally:
        del NETWORKS["locked"]
