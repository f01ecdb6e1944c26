"""What `solve_round` is told: labels, orders, devices that are taken, what was before, errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from tests.seeds import sampled
from tests.sim.one_round.drawn import drawn_workload

import apportion as ap
from apportion.cluster import TIERS

if TYPE_CHECKING:
    from apportion.sim.network.shapes import Shape

SPEED = {"a": {"v100": 4.0, "k80": 1.0}, "b": {"v100": 2.0, "k80": 1.0}, "c": {"v100": 3.0}}
CLUSTER = ap.Cluster({"v100": 4, "k80": 4}, gpus_per_machine=2)
RACKS = ap.Cluster.of_racks(2, machines_per_rack=2, gpus_per_machine=2, accelerator="v100")
OPTIONS = pd.MultiIndex.from_tuples(
    [("v100", 1), ("v100", 2), ("v100", 4), ("k80", 1)], names=["accelerator", "gpus"]
)
GOODPUT = pd.DataFrame(
    [[4.0, 7.0, 12.0, 1.0], [3.0, 3.5, 3.6, 2.0], [8.0, 15.0, 28.0, 2.0]], list("abc"), OPTIONS
)


def rounds(**given: Any) -> ap.RoundDecision:
    """Ask for a round of max-min fairness."""
    return ap.solve_round("max_min_fairness", SPEED, CLUSTER, **given)


def elastic(**given: Any) -> ap.RoundDecision:
    """Ask for an interval of Pollux."""
    told: dict[str, Any] = {"jobs": {"elapsed_s": 900.0}}
    return ap.solve_round("pollux", GOODPUT, CLUSTER, **(told | given))


def drawn(seed: int, cluster: ap.Cluster) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Draw throughputs and a jobs table, all jobs being there."""
    workload = drawn_workload(seed, cluster)
    table = workload.jobs.assign(elapsed_s=3600.0 - workload.jobs["arrival_s"])
    return workload.throughput_of(cluster), table


def test_the_table_and_what_is_printed() -> None:
    found = rounds(jobs={"scale_factor": [2, 4, 1]}, running={"b": ("v100", range(4))})
    table = found.table()
    assert [*table.loc["a"]] == ["v100", (0,), (0,), (0, 1), "started", ()]
    assert [*table.loc["b"]] == ["k80", (0,), (0, 1), (0, 1, 2, 3), "moved", ()]
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


def test_whole_decisions_are_those_of_solve() -> None:
    now = {"a": ("v100", 2), "b": None, "c": None}
    found = elastic(running={"a": ("v100", [2, 3])}, growth=np.inf)
    factor = {"a": 900 / 930, "b": 1.0, "c": 1.0}
    jobs = {"current_option": now, "reallocation_factor": factor}
    whole = ap.solve("pollux", GOODPUT, workers=CLUSTER, jobs=jobs)
    assert found.allocation is not None
    assert found.allocation.choice.to_dict() == whole.choice.to_dict()
    has = {job: (kind, len(devices)) for job, (kind, devices) in found.running.items()}
    assert has == whole.choice.dropna().to_dict()


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
    assert [*found.table().loc["a"]] == ["v100", (1,), (2,), (4, 5), "started", ()]
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


def test_jobs_that_share_devices() -> None:
    keys = pd.MultiIndex.from_tuples([("x", 1)], names=["job_type", "scale_factor"])
    pairs = ap.PairThroughputs(np.full((1, 1, 1), 0.9), np.ones((1, 1)), keys, ("v100",))
    one = {job: {"v100": 1.0} for job in "abcd"}
    given: dict[str, Any] = {"jobs": {"job_type": "x"}, "pairs": pairs}
    policy = "max_min_fairness_space_sharing"
    found = ap.solve_round(policy, one, "v100=2", **given)
    assert len(found.plan.assignments) == 2
    assert found.table()["shares_with"].map(len).eq(1).all()
    assert found.allocation is not None
    assert {" + " in row for row in found.allocation.X.index} == {True, False}
    again = ap.solve_round(policy, one, "v100=2", running=found.running, **given)
    assert again.running == found.running
    assert again.plan.extended == again.plan.jobs
    three = dict.fromkeys("abc", ("v100", [0]))
    with pytest.raises(ap.InputError, match="More than two jobs have the devices of job 'c'"):
        ap.solve_round(policy, one, "v100=2", running=three, **given)


class ByTier:
    """A network in which the tier is all that counts."""

    name = "by_tier"

    def overhead(self, job_type: str, shape: Shape) -> float:
        tier = 2 if len(shape) > 1 else int(max(map(len, shape)) > 1)
        return (0.0, 0.25, 1.0)[tier] * (1 + (job_type == "VGG11"))


@pytest.mark.parametrize("policy", ["dally_round", "max_min_fairness", "dally_no_wait"])
@pytest.mark.parametrize("mechanism", ["leases", "rounds"])
def test_throughputs_by_tier_are_a_network(policy: str, mechanism: str) -> None:
    if mechanism == "rounds" and policy != "max_min_fairness":
        return
    network = ByTier()
    for seed in range(2):
        speeds, table = drawn(seed, RACKS)
        slow = [[1 + network.overhead(name, each) for each in (((2,),), ((1, 1),), ((1,), (1,)))]
                for name in table["job_type"]]  # fmt: skip
        tiers = pd.MultiIndex.from_product([["v100"], TIERS], names=["accelerator", "tier"])
        told = pd.DataFrame(speeds.to_numpy() / np.array(slow), speeds.index, tiers)
        by_tier = ap.solve_round(policy, told, RACKS, jobs=table, mechanism=mechanism)
        given: dict[str, Any] = {"jobs": table, "mechanism": mechanism, "network": network}
        assert by_tier.running == ap.solve_round(policy, speeds, RACKS, **given).running


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
    ({"jobs": {"pinned": [True, False, False]}}, "'pinned' is for leases and elastic jobs"),
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
    refused("'afs' is for elastic jobs: give throughputs", "afs", SPEED, CLUSTER)
    refused("does not decide in whole numbers", "fifo", GOODPUT, CLUSTER)
    refused("'sia' .* for elastic|for elastic jobs: give", "sia", SPEED, CLUSTER,
            mechanism="configurations")  # fmt: skip
    refused("No gang has 3 GPUs of type 'v100'.*gang_sizes='every'", "sia",
            GOODPUT.rename(columns={4: 3}), CLUSTER)  # fmt: skip
    refused("received has no GPUs among its columns", "sia", GOODPUT, CLUSTER,
            jobs={"elapsed_s": 9.0}, received={"a": {"v100": 1.0}})  # fmt: skip
    refused("Job 'a' is pinned and has no devices", "sia", GOODPUT, CLUSTER,
            jobs={"pinned": [True, False, False]})  # fmt: skip
    refused("network= is for simulations of elastic", "sia", GOODPUT, CLUSTER, network="phases")
    refused("GPUs are chosen for one job at a time", "least_workload", SPEED, CLUSTER)
    refused("give the links", "rotations", SPEED, CLUSTER)
    combined = ap.ThroughputTensor.of_combinations(
        {("a",): [[4.0]], ("b",): [[2.0]], ("a", "b"): [[3.0], [1.0]]}, ["v100"]
    )
    refused("rows of single jobs, and pairs=", "max_min_fairness", combined, "v100=1")
    tiers = pd.MultiIndex.from_product([["v100"], TIERS], names=["accelerator", "tier"])
    lies = pd.DataFrame([[4.0, 3.0, 0.0]], ["a"], tiers)
    gang: dict[str, Any] = {"scale_factor": 2}
    refused("can lie at the tier 'network'", "dally_round", lies, RACKS, jobs=gang)
    full = pd.DataFrame([[4.0, 3.0, 2.0], [4.0, 2.0, 2.0]], ["a", "b"], tiers)
    alike = {**gang, "job_type": "x"}
    refused("Tiers slow job 'b' down", "dally_round", full, RACKS, jobs=alike)
    refused("stands beside throughputs by tier", "dally_round", full, RACKS, network="alpha_beta")
