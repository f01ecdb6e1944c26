"""Machines of several types cut into machines of one size: by enumeration, and in whole runs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.seeds import ranges_of_seeds, sampled

import apportion as ap
from apportion.cluster import Cluster
from apportion.errors import InputError
from apportion.mechanism.configurations import VirtualNodes, pack
from apportion.mechanism.devices import Devices

if TYPE_CHECKING:
    from collections.abc import Sequence

TYPES = ("t4", "rtx", "a100")
CLUSTER = Cluster({"t4": 8, "rtx": 8, "a100": 8}, {"t4": 4, "rtx": 8, "a100": 8})


def drawn_cluster(rng: np.random.Generator) -> Cluster:
    """Some types without GPUs, machines of any size, the last of a type perhaps not full."""
    counts = {kind: int(rng.integers(0, 13)) for kind in TYPES}
    counts["t4"] += not any(counts.values())
    return Cluster(counts, {kind: int(rng.integers(1, 9)) for kind in TYPES})


def drawn_workload(seed: int, jobs: int = 8) -> ap.ElasticWorkload:
    made = ap.generate_elastic_workload(jobs, hours=0.4, seed=seed)
    return replace(made, relative_speed={"t4": 1.0, "rtx": 1.5, "a100": 4.0})


def largest_of_one_type(held: Sequence[int], kind_of: dict[int, int]) -> list[set[int]]:
    """All largest subsets of GPUs of one type, by trying every subset from the largest down."""
    for size in range(len(held), 0, -1):
        found = [
            set(some) for some in combinations(held, size) if len({kind_of[g] for g in some}) == 1
        ]
        if found:
            return found
    return []


@pytest.mark.parametrize("seeds", ranges_of_seeds(60, 360))
def test_gangs_keep_the_most_that_one_type_can_have(seeds: range) -> None:
    for seed in seeds:
        rng = np.random.default_rng(seed)
        cluster = drawn_cluster(rng)
        devices = Devices.of(cluster)
        nodes = VirtualNodes(devices, seed)
        sizes = {k: cluster.machines(k).max() for k in cluster.accelerators if cluster.gpus[k]}
        most = min(sizes.values())
        # Every GPU stands behind one part, and parts lie within real machines.
        every = {
            (kind, gpu) for kind, pool in enumerate(devices.pools) for gpu in pool.free_devices
        }
        assert sorted(nodes.real) == sorted(every)
        parts: dict[int, list[tuple[int, int]]] = {}
        for place, machine in enumerate(nodes.devices.pools[0].machine_of):
            parts.setdefault(machine, []).append(nodes.real[place])
        for part in parts.values():
            assert len(part) <= most
            assert len({(kind, devices.pools[kind].machine_of[gpu]) for kind, gpu in part}) == 1
        small = sum(len(part) < most for part in parts.values())
        machines = sum(len(cluster.machines(kind)) for kind in sizes)
        assert small <= machines  # at most the rest of each machine
        # Gangs of drawn sizes, as they are packed.
        wanted = {job: (0, int(rng.integers(1, 9))) for job in range(4)}
        pack(nodes.devices, wanted)
        kinds = {place: kind for place, (kind, _) in enumerate(nodes.real)}
        fast = rng.permutation(len(TYPES))
        for job, (_, held) in nodes.devices.held.items():
            kept = nodes.of_one_type(job, held, lambda job, kind, gpus, nodes: float(fast[kind]))  # noqa: B023
            best = largest_of_one_type(held, kinds)
            assert set(kept) in best
            assert fast[kinds[kept[0]]] == max(fast[kinds[min(some)]] for some in best)
            kind, real = nodes.on_machines(kept)
            assert {(kind, gpu) for gpu in real} == {nodes.real[place] for place in kept}


@pytest.mark.parametrize(
    "policy", sampled(["pollux", "sia", "deepboot", "optimus_greedy", "tiresias"], 3)
)
def test_on_one_type_nothing_is_hidden(policy: str) -> None:
    runs = [
        ap.simulate(policy, drawn_workload(3, 2), {"t4": 8}, goodputs=goodputs, seed=5)
        for goodputs in ("told", "virtual_nodes")
    ]
    assert runs[0].jobs["completion_s"].tolist() == runs[1].jobs["completion_s"].tolist()
    assert runs[0].jobs["restarts"].tolist() == runs[1].jobs["restarts"].tolist()


@pytest.mark.parametrize("policy", sampled(["pollux", "deepboot", "sia"], 2))
@pytest.mark.parametrize("restart", ["stop_resume", "afe"])
def test_no_gpu_is_held_twice_and_no_gang_has_two_types(policy: str, restart: str) -> None:
    run = ap.simulate(
        policy, drawn_workload(1, 6), CLUSTER, goodputs="virtual_nodes", gang_restart=restart
    )
    assert run.jobs["completion_s"].notna().all()
    stays = run.schedule.explode("devices")
    edges = sorted({*stays["start_s"], *stays["end_s"]})
    for start, end in pairwise(edges):
        now = stays[(stays["start_s"] <= start) & (stays["end_s"] >= end)]
        assert not now.duplicated(["accelerator", "devices"]).any()
        assert (now.groupby("job")["accelerator"].nunique() <= 1).all()
        held = Counter(now["accelerator"])
        assert all(held[kind] <= CLUSTER.gpus[kind] for kind in TYPES)


def test_of_a_gang_on_two_types_half_is_idle() -> None:
    """One job would have all eight GPUs: it trains on the four that are faster."""
    workload = replace(drawn_workload(0), jobs=drawn_workload(0).jobs.iloc[:1])
    cluster = Cluster({"t4": 4, "rtx": 4}, {"t4": 4, "rtx": 4})
    how = ap.Configurations(goodputs="virtual_nodes", growth=np.inf)
    run = ap.simulate("optimus", workload, cluster, mechanism=how)
    assert set(run.schedule["accelerator"]) == {"rtx"}
    assert max(map(len, run.schedule["devices"])) == 4


def test_seeds_draw_where_machines_stand() -> None:
    orders = [VirtualNodes(Devices.of(CLUSTER), seed).real for seed in (0, 0, 1)]
    assert orders[0] == orders[1] != orders[2]


@pytest.mark.thorough
def test_the_contract_of_schedulers_holds() -> None:
    on = (drawn_workload(0, 5), CLUSTER)
    hidden = ap.Configurations(goodputs="virtual_nodes")
    ap.check_scheduler("pollux", on=on, mechanism=hidden, n_jobs=1)


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"gang_restart": "edl"}, "gang_restart"),
        ({"network": "contention"}, "network"),
        ({"serving": "requests.csv"}, "serving"),
    ],
)
def test_what_must_see_machines_is_refused(settings: dict[str, Any], names: str) -> None:
    with pytest.raises(InputError, match=f"{names}=.*virtual_nodes"):
        ap.simulate("pollux", drawn_workload(0), CLUSTER, goodputs="virtual_nodes", **settings)
