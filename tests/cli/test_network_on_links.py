"""CASSINI from the outside: a workload that is drawn, a topology from a file, a comparison."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

import apportion as ap
from apportion.cli import main
from apportion.errors import InputError
from apportion.sim.network import (
    PhaseNetwork,
    TreeTopology,
    communication_profile,
    get_topology,
    jobs_on_links,
    rails,
)
from apportion.sim.network.cassini import CassiniNetwork, GangLinks

if TYPE_CHECKING:
    from pathlib import Path

PAIRS = """
name = "pairs"
kind = "tree"
units = 6

[[levels]]
name = "server"
size = 1
uplink_gbps = 50

[[levels]]
name = "leaf"
size = 2
oversubscription = 2
"""
SERVERS = ap.Cluster({"a100": 12}, gpus_per_machine=1, machines_per_rack=2)


def files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    (tmp_path / "pairs.toml").write_text(PAIRS, encoding="utf-8")
    jobs = str(tmp_path / "jobs.csv")
    told = "workload generate --kind communicating --generate-jobs 4 --jobs-per-hour 20 --seed 3 "
    told += "--models VGG16,BERT --gang-gpus 3"
    assert main([*told.split(), jobs]) == 0
    assert set(pd.read_csv(jobs, comment="#")["scale_factor"]) == {3}
    assert "4 jobs" in capsys.readouterr().out
    return jobs, str(tmp_path / "pairs.toml")


@pytest.mark.thorough
def test_a_comparison_on_a_topology_of_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network = "phases"
    jobs, topology = files(tmp_path, capsys)
    out = tmp_path / "out"
    told = "--policies dally,finish_time_fairness --racks 6 --machines-per-rack 2 --jobs 1 "
    told += "--gpus-per-machine 1"
    common = ["compare", "--workload", jobs, *told.split(), "--out", str(out)]
    settings = f"network={network}, placement=cassini, lease_seconds=600, topology={topology}"
    assert main([*common, "--mechanism", f"({settings})"]) == 0
    assert "dally" in capsys.readouterr().out
    record = json.loads((out / "run.json").read_text(encoding="utf-8"))
    assert topology in json.dumps(record)
    found = pd.read_csv(out / "summary.csv").set_index("policy")["mean_jct_s"]
    # Half the bandwidth upwards is what these networks have by themselves.
    workload = ap.read_workload(jobs)
    for policy, mean in found.items():
        run = ap.simulate(
            str(policy),
            workload,
            SERVERS,
            mechanism=ap.Leases(
                seconds=600,
                network=network,
                placement="cassini",
                preemption_overhead_seconds="measured",
            ),
        )
        assert run.summary()["mean_jct_s"] == pytest.approx(mean)


def test_a_topology_that_does_not_go_with_the_rest_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs, topology = files(tmp_path, capsys)
    common = ["compare", "--workload", jobs, "--policies", "fifo"]
    common += ["--gpus-per-machine", "1", "--jobs", "1"]
    common += ["--out", str(tmp_path / "out")]
    cases = (
        (f"network=table1, topology={topology}", "a100=12", "knows none"),
        (f"topology={topology}", "a100=12", "knows none"),
        ("network=phases, topology=casini", "a100=12", "cassini"),
        ("network=phases, topology=none.toml", "a100=12", "Cannot read"),
        ("network=phases, topology=cassini", "a100=48", "24 GPUs"),
    )
    for settings, cluster, words in cases:
        mechanism = ["--mechanism", f"rounds({settings})"]
        assert main([*common, "--cluster", cluster, *mechanism]) != 0
        assert words in capsys.readouterr().err


def test_links_of_gangs_are_those_of_the_topology() -> None:
    rng = np.random.default_rng(1)
    cluster = ap.Cluster({"a100": 24}, gpus_per_machine=4, machines_per_rack=2)
    tree = rails("rails", servers=2, gpus_per_server=4, gpu_gbps=100.0, groups=3)
    links = GangLinks(PhaseNetwork(topology=tree), cluster)
    for _ in range(30):
        gpus = np.sort(rng.choice(24, 6, replace=False))
        counts = {(g // 8, g % 8 // 4): int((gpus // 4 == g // 4).sum()) for g in gpus.tolist()}
        placement = tuple((rack, machine, count) for (rack, machine), count in counts.items())
        first = [8 * r + 4 * m + each for r, m, count in placement for each in range(count)]
        found = links.links_of(placement)
        if len(placement) == 1:
            assert found == {}
            continue
        assert set(found) == set(jobs_on_links(tree, {"gang": first}))
        assert set(found.values()) <= {100.0, 200.0}
    assert CassiniNetwork(topology="cassini").topology == get_topology("cassini")
    assert CassiniNetwork(topology=tree).gbps == 100
    assert CassiniNetwork(topology=tree).profile("VGG16", 4) == communication_profile(
        "VGG16", gbps=100.0, gpus=4
    )


@pytest.mark.thorough
def test_a_topology_is_taken_by_every_mechanism() -> None:
    wide = TreeTopology("wide", (get_topology("cassini").levels[0],), 24)  # type: ignore[attr-defined]
    load = ap.generate_communicating_workload(4, jobs_per_hour=60, models=["VGG16"])
    ends: dict[Any, Any] = {}
    for topology in (None, wide):
        for mechanism in (ap.Rounds, ap.Leases):
            kind: Any = mechanism
            own = kind(network="phases", placement="random", topology=topology)
            run = ap.simulate("max_min_fairness", load, SERVERS, mechanism=own)
            ends[topology is None, mechanism.name] = run.tables["links"]["marks_gigabits"].sum()
    for name in ("rounds", "leases"):  # one switch has no leaves to share
        assert ends[False, name] == 0 < ends[True, name]


def test_drawn_jobs_keep_the_cluster_as_busy_as_told() -> None:
    load = ap.generate_communicating_workload(4000, seed=1)
    jobs = load.jobs
    rates = load.throughputs["a100"]
    seconds = jobs["total_steps"].to_numpy() / [
        rates[each] for each in zip(jobs["job_type"], jobs["scale_factor"], strict=True)
    ]
    assert seconds.min() >= 599
    assert seconds.max() <= 5401
    busy = (seconds * jobs["scale_factor"]).sum() / (24 * jobs["arrival_s"].max())
    assert busy == pytest.approx(0.9, abs=0.04)
    assert set(jobs["scale_factor"]) == set(range(2, 7))
    again = ap.generate_communicating_workload(4000, seed=1)
    pd.testing.assert_frame_equal(jobs, again.jobs)
    wrong: tuple[tuple[dict[str, Any], str], ...] = (
        ({"models": ["VGG99"]}, "VGG99"),
        ({"models": []}, "models or gpus is empty"),
        ({"gpus": []}, "models or gpus is empty"),
        ({"gpus": [1]}, "A number of gpus"),
        ({"jobs": 0}, "jobs"),
        ({"jobs_per_hour": 0}, "jobs_per_hour"),
        ({"gbps": -1}, "gbps"),
    )
    for change, words in wrong:
        with pytest.raises(InputError, match=words):
            ap.generate_communicating_workload(**change)


def test_a_job_that_wants_more_than_a_link_has_is_warned_of() -> None:
    """It is never compatible; it runs all the same, at what the link has."""
    wide = {"wide": ap.CommunicationProfile("wide", 1.0, [(0.0, 0.5, 80.0)])}
    with pytest.warns(UserWarning, match="'wide' wants 80 Gb/s .* never compatible"):
        network = PhaseNetwork(profiles=wide)
    with pytest.warns(UserWarning, match="of a link of 50"):
        PhaseNetwork(profiles=wide, machine_gbps=100, topology="cassini")
    table = pd.DataFrame({"job_type": ["wide"], "scale_factor": 2, "total_steps": 100.0})
    rows = pd.MultiIndex.from_tuples([("wide", 2)], names=["job_type", "scale_factor"])
    load = ap.Workload("wide", table, pd.DataFrame({"a100": 1.0}, index=rows))
    run = ap.simulate("fifo", load, SERVERS, mechanism=ap.Rounds(network=network))
    assert run.jobs["jct_s"].tolist() == pytest.approx([100 * (0.5 + 0.5 * 80 / 50)])
    assert run.tables["links"]["marks_gigabits"].tolist()[0] > 0


def test_a_gang_on_no_link_is_as_fast_as_alone() -> None:
    """Within one machine; and its profile may be silent."""
    silent = {"silent": ap.CommunicationProfile("silent", 1.0)}
    table = pd.DataFrame({"job_type": "silent", "scale_factor": [2, 4], "total_steps": 100.0})
    rows = pd.MultiIndex.from_product([["silent"], [2, 4]], names=["job_type", "scale_factor"])
    load = ap.Workload("silent", table, pd.DataFrame({"a100": 1.0}, index=rows))
    cluster = ap.Cluster({"a100": 6}, gpus_per_machine=2, machines_per_rack=1)
    for kind in (CassiniNetwork, PhaseNetwork):
        rounds = ap.Rounds(network=kind(profiles=silent), placement="cassini")
        run = ap.simulate("fifo", load, cluster, mechanism=rounds)
        assert run.jobs["jct_s"].tolist() == [100, 100]


def test_models_without_a_profile_are_named() -> None:
    table = pd.DataFrame({"job_type": ["A3C"], "scale_factor": 2, "total_steps": 100.0})
    rows = pd.MultiIndex.from_tuples([("A3C", 2)], names=["job_type", "scale_factor"])
    load = ap.Workload("a3c", table, pd.DataFrame({"a100": 1.0}, index=rows))
    with pytest.raises(InputError, match="CommunicationProfile"):
        ap.simulate("fifo", load, SERVERS, mechanism=ap.Rounds(network="phases"))


def test_options_of_other_workloads_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for option, value in (("--arrivals", "batch"), ("--scale-factors", "gavel")):
        told = ["workload", "generate", "--kind", "communicating", option, value, "out.csv"]
        assert main(told) != 0
        assert "--kind communicating" in capsys.readouterr().err
    for option, value in (("--models", "VGG16"), ("--gang-gpus", "3")):
        assert main(["workload", "generate", option, value, "out.csv"]) != 0
        assert "is for --kind communicating" in capsys.readouterr().err
    assert main([*told[:4], "--jobs-per-hour", "0", "out.csv"]) != 0
    assert "must be > 0" in capsys.readouterr().err
