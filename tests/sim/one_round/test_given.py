"""What `solve_round` is told: labels, orders, devices that are taken, what was before, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.seeds import sampled
from tests.sim.one_round.drawn import drawn_workload

import apportion as ap
from apportion.cluster import TIERS

SPEED = {"a": {"v100": 4.0, "k80": 1.0}, "b": {"v100": 2.0, "k80": 1.0}, "c": {"v100": 3.0}}
CLUSTER = ap.Cluster({"v100": 4, "k80": 4}, gpus_per_machine=2)
RACKS = ap.Cluster.of_racks(2, machines_per_rack=2, gpus_per_machine=2, accelerator="v100")


def rounds(**given: Any) -> ap.RoundDecision:
    """Ask for a round of max-min fairness."""
    return ap.solve_round("max_min_fairness", SPEED, CLUSTER, **given)


def drawn(seed: int, cluster: ap.Cluster) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Draw throughputs and a jobs table, all jobs being there."""
    workload = drawn_workload(seed, cluster)
    table = workload.jobs.assign(elapsed_s=3600.0 - workload.jobs["arrival_s"])
    return workload.throughput_of(cluster), table


def test_the_table_and_what_is_printed() -> None:
    found = rounds(jobs={"scale_factor": [2, 4, 1]}, running={"b": ("v100", range(4))})
    table = found.table()
    assert [*table.loc["a"]] == ["v100", (0,), (0,), (0, 1), "started"]
    assert [*table.loc["b"]] == ["k80", (0,), (0, 1), (0, 1, 2, 3), "moved"]
    assert found.running["c"] == ("v100", (2,))
    assert (found.mechanism, found.valid_for_s, found.waiting) == ("rounds", 360.0, ())
    assert found.status == "optimal"
    assert found.gap < 1e-9
    for shown in (repr(found), found._repr_html_()):
        assert "3 jobs have devices" in shown
        assert "nan" not in shown.lower()
    again = rounds(jobs={"scale_factor": [2, 4, 1]}, running=found.running)
    assert again.plan.extended == again.plan.jobs
    some = rounds(running={"a": ("v100", [3])}, free={"k80": [0]})
    assert some.table()["status"].to_dict() == {"a": "extended", "b": "started", "c": "waiting"}


@pytest.mark.parametrize("policy", ["max_min_fairness", "makespan", "nash_welfare"])
def test_the_allocation_is_that_of_solve(policy: str) -> None:
    speeds, table = drawn(1, CLUSTER)
    found = ap.solve_round(policy, speeds, CLUSTER, jobs=table)
    whole = ap.solve(policy, speeds, workers=CLUSTER, jobs=table)
    assert found.allocation is not None
    np.testing.assert_allclose(found.allocation.X, whole.X.loc[found.allocation.X.index], atol=1e-9)
    assert list(found.allocation.X.index) == list(speeds.index)
    assert found.objective == pytest.approx(whole.objective)
    assert found.allocation.prices.to_dict() == pytest.approx(whole.prices.to_dict())


@pytest.mark.parametrize(
    ("policy", "cluster"),
    [
        ("max_min_fairness", CLUSTER),
        ("fifo_agnostic", CLUSTER),
        ("dally_manual", ap.Cluster({"v100": 4, "k80": 4}, 2, 1)),
        ("dally_round", ap.Cluster({"v100": 4, "k80": 4}, 2, 1)),
    ],
)
def test_orders_change_nothing(policy: str, cluster: ap.Cluster) -> None:
    for seed in range(2):
        speeds, table = drawn(seed, cluster)
        running = ap.solve_round(policy, speeds.iloc[:3], cluster, jobs=table.iloc[:3]).running
        seconds = (table["elapsed_s"] / 4).to_frame("v100")
        given: dict[str, Any] = {"running": running, "received": seconds}
        first = ap.solve_round(policy, speeds, cluster, jobs=table, **given)
        rng = np.random.default_rng(seed)
        order, other = rng.permutation(len(table)), rng.permutation(len(table))
        turned = ap.Cluster({"k80": 4, "v100": 4}, 2, cluster.machines_per_rack)
        given = {"running": dict(reversed(running.items())), "received": seconds.iloc[other]}
        again = ap.solve_round(
            policy, speeds.iloc[order][["k80", "v100"]], turned, jobs=table.iloc[other], **given
        )
        assert again.running == first.running
        assert again.table()["status"].to_dict() == first.table()["status"].to_dict()


@pytest.mark.parametrize(
    "policy", sampled(["dally_round", "max_min_fairness", "sia", "gandiva"], 2)
)
def test_devices_that_are_taken_are_as_if_they_were_not_there(policy: str) -> None:
    """Without the last machines it is the cluster that has fewer."""
    whole = ap.Cluster({"v100": 6, "k80": 6}, gpus_per_machine=2, machines_per_rack=1)
    less = ap.Cluster({"v100": 4, "k80": 2}, gpus_per_machine=2, machines_per_rack=1)
    for seed in range(2):
        workload = drawn_workload(seed, less, most_gpus=2)
        speeds, table = workload.throughput_of(less), workload.jobs
        free = {"v100": range(4), "k80": range(2)}
        some = ap.solve_round(policy, speeds, whole, jobs=table, free=free)
        assert some.running == ap.solve_round(policy, speeds, less, jobs=table).running
        odd = {"v100": [1, 2, 5], "k80": [0, 3]}
        for accelerator, devices in ap.solve_round(
            policy, speeds, whole, jobs=table, free=odd
        ).running.values():
            assert {*devices} <= {*odd[accelerator]}


def test_machines_and_racks_stay_where_they_are() -> None:
    """Three devices are free: two gangs of two that must lie in a machine find one."""
    free = {"v100": [1, 4, 5]}
    jobs = {"scale_factor": 2, "steps_remaining": 1.0}
    two = {"a": {"v100": 1.0}, "b": {"v100": 1.0}}
    found = ap.solve_round("dally_manual", two, RACKS, jobs=jobs, free=free)
    assert [*found.table().loc["a"]] == ["v100", (1,), (2,), (4, 5), "started"]
    assert found.waiting == ("b",)
    assert found.valid_for_s == 3602.0  # a lease, and a second of each GPU to save
    patient = {**jobs, "elapsed_s": 50000.0}  # past 12 h: a rack would do, and there is none
    assert ap.solve_round("dally_manual", two, RACKS, jobs=patient, free=free).waiting == ("b",)


def test_what_was_before_counts() -> None:
    one = {"a": {"v100": 1.0}, "b": {"v100": 1.0}}
    first = ap.solve_round("max_min_fairness", one, "v100=1")
    assert first.plan.jobs == ("a",)
    behind = {"b": {"v100": 100.0}}
    assert ap.solve_round("max_min_fairness", one, "v100=1", owed=behind).plan.jobs == ("b",)
    rack = ap.Cluster.of_racks(1, machines_per_rack=1, gpus_per_machine=1, accelerator="v100")
    jobs: dict[str, Any] = {"job_type": "VGG11", "steps_remaining": 1.0, "elapsed_s": 9000.0}
    for decider, seconds in (("tiresias", 4000.0), ("tiresias_continuous", 1.0)):
        had = {"a": {"v100": seconds}}
        found = ap.solve_round(decider, one, rack, jobs=jobs, received=had)
        assert found.plan.jobs == ("b",)
        assert ap.solve_round(decider, one, rack, jobs=jobs).plan.jobs == ("a",)
    slowed = {**jobs, "total_steps": [101.0, 51.0]}  # of 100 s on the GPU: b lost half of them
    same = {job: {"v100": 100.0} for job in one}
    assert ap.solve_round("dally", one, rack, jobs=slowed, received=same).plan.jobs == ("b",)
    there: dict[str, Any] = {"running": {"a": ("v100", [0])}, "received": same}
    assert ap.solve_round("dally", one, rack, jobs=slowed, **there).plan.preempted == ("a",)
    pinned = {**slowed, "pinned": [True, False]}
    assert ap.solve_round("dally", one, rack, jobs=pinned, **there).plan.extended == ("a",)


def test_nobody_and_nothing() -> None:
    empty: dict[str, dict[str, float]] = {}
    for nobody in (empty, pd.DataFrame(columns=["v100"])):
        found = ap.solve_round("max_min_fairness", nobody, "v100=2")
        assert found.table().empty
        assert np.isnan(found.gap)
        assert "no jobs" in repr(found)
    for policy in ("max_min_fairness", "dally_round"):
        none = ap.solve_round(policy, SPEED, CLUSTER, free={})
        assert none.waiting == ("a", "b", "c")
        assert none.allocation is None
        assert none.running == {}
    large = rounds(jobs={"scale_factor": [1, 3, 4]}, free={"v100": [0, 1], "k80": [1]})
    assert large.waiting == ("b", "c")
    assert large.allocation is not None
    assert large.allocation.X.loc[["b", "c"]].to_numpy().sum() == 0


BAD: list[tuple[dict[str, Any], str]] = [
    ({"running": {"z": ("v100", [0])}}, "Unknown job in running 'z'"),
    ({"running": {"a": ("v10", [0])}}, "Unknown accelerator in running of job 'a' 'v10'. Did"),
    ({"running": {"a": ("v100", [7])}}, "A device of 'v100' in running of job 'a' is 7"),
    ({"running": {"a": ("v100", [1, 1])}}, "Device 1 of 'v100' stands twice"),
    ({"running": {"a": ("v100", [1, 2])}}, "Job 'a' runs on 2 devices 'v100'; it needs 1"),
    ({"running": {"c": ("k80", [1])}}, "Job 'c' runs on 1 devices 'k80'; its throughput there"),
    ({"running": {j: ("v100", [1]) for j in "ab"}}, "Device 1 of 'v100' is held by jobs 'a' and"),
    (
        {"running": {"a": ("v100", [1])}, "free": {"v100": [1]}},
        "Device 1 of 'v100' is among the free ones, and job 'a' runs there",
    ),
    ({"free": {"v100": [9]}}, "A device of 'v100' in free is 9"),
    ({"free": {"x": [0]}}, "Unknown accelerator in free 'x'"),
    ({"received": {"z": {"v100": 1.0}}}, "Unknown job in received 'z'"),
    ({"received": {"a": {"v10": 1.0}}}, "Unknown accelerator in received 'v10'"),
    ({"received": {"a": {"v100": -1.0}}}, "received of 'a' on 'v100' is -1.0"),
    ({"received": {"a": {"v100": 9.0}}}, "Job 'a' has received 9 s .* tell elapsed_s"),
    ({"owed": {"a": {"v100": np.inf}}}, "owed of 'a' on 'v100' is inf"),
    ({"owed": {"a": {("v100", "machine"): 1.0}}}, "Shares are of accelerator types here; owed"),
    ({"jobs": {"scale_factor": [1, 9, 1]}}, "Job 'b' can run nowhere: it needs 9 GPUs"),
    ({"jobs": {"network_priority": 0.4}}, "'network_priority' .* is for solve; a round makes it"),
    ({"jobs": {"current_option": "v100"}}, "a round makes it of running="),
    ({"jobs": {"count": 2}}, "has a count above 1"),
    ({"jobs": {"pinned": [True, False, False]}}, "'pinned' is for leases; by"),
    ({"jobs": {"arrival_s": [0.0, 1.0, 2.0], "elapsed_s": 1.0}}, "Job 'a' has arrival_s"),
    ({"jobs": {"steps_remaining": 3.0, "total_steps": 1.0}}, "Job 'a' has steps_remaining = 3"),
    ({"jobs": {"weigth": 3.0}}, "Did you mean 'weight'"),
    ({"mechanism": "exact"}, r"solve\(policy, throughputs\) returns the shares"),
    ({"mechanism": "queue"}, "is a policy, which shares out time"),
    ({"mechanism": "configurations"}, "does not decide in whole numbers"),
    ({"speeds": "agnostic"}, "speeds='agnostic' is for simulations"),
    ({"round_secnds": 3}, "Did you mean 'round_seconds'"),
    ({"placement": "packd"}, "Unknown placement 'packd'"),
]


@pytest.mark.parametrize(("given", "words"), BAD)
def test_what_is_wrong_is_said_in_words(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ap.InputError, match=words):
        rounds(**given)


def test_what_does_not_go_together_is_refused() -> None:
    def refused(words: str, *given: Any, **more: Any) -> None:
        with pytest.raises(ap.InputError, match=words):
            ap.solve_round(*given, **more)

    refused("not known which devices", "max_min_fairness", SPEED)
    refused("cluster v100=3 has none; leave it out, or say k80=0", "fifo", SPEED, "v100=3")
    refused("no column 'steps_remaining'", "makespan", SPEED, CLUSTER)
    refused("no column 'steps_remaining'", "dally", SPEED, CLUSTER)
    refused("'afs' is for elastic jobs, which are for simulate", "afs", SPEED, CLUSTER)
    refused("'configurations' is for elastic jobs", "sia", SPEED, CLUSTER,
            mechanism="configurations")  # fmt: skip
    refused("Job 'a' is pinned and has no devices", "dally", SPEED,
            ap.Cluster({"v100": 4, "k80": 4}, 2, 1),
            jobs={"pinned": [True, False, False], "steps_remaining": 1.0})  # fmt: skip
    refused("no pair throughputs", "max_min_fairness_space_sharing", SPEED, CLUSTER)
    refused("give the links", "rotations", SPEED, CLUSTER)
    combined = ap.ThroughputTensor.of_combinations(
        {("a",): [[4.0]], ("b",): [[2.0]], ("a", "b"): [[3.0], [1.0]]}, ["v100"]
    )
    refused("rows of single jobs", "max_min_fairness", combined, "v100=1")
    tiers = pd.MultiIndex.from_product([["v100"], TIERS], names=["accelerator", "tier"])
    refused(
        "by accelerator type alone", "dally_round", pd.DataFrame([[4.0] * 3], ["a"], tiers), RACKS
    )
    sizes = pd.MultiIndex.from_tuples([("v100", 1)], names=["accelerator", "gpus"])
    refused("elastic jobs are for simulate", "sia", pd.DataFrame([[4.0]], ["a"], sizes), CLUSTER)
