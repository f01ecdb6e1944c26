"""Links of gangs of two against ways that are enumerated in a graph of all switches."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import apportion as ap
from apportion.sim.network import (
    DragonflyTopology,
    ParallelUplinks,
    SwitchLevel,
    TreeTopology,
    chosen_paths,
    fat_tree,
    get_topology,
    leaf_spine,
    rails,
)

if TYPE_CHECKING:
    from pathlib import Path

Edges = dict[tuple[str, str], str]


def shortest(
    edges: Edges, here: str, there: str, allowed: set[str] | None = None
) -> list[set[str]]:
    """All shortest ways, each as its links, by going through all of them in turn."""
    beside: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for (one, other), link in edges.items():
        beside[one].append((other, link))
        beside[other].append((one, link))
    ways = [(here, [here], frozenset[str]())]
    while ways:
        ended = [set(links) for at, _, links in ways if at == there]
        if ended:
            return ended
        ways = [
            (to, [*seen, to], links | {link})
            for at, seen, links in ways
            for to, link in beside[at]
            if to not in seen and (allowed is None or to in allowed)
        ]
    return []


def dragonfly_edges(d: DragonflyTopology) -> tuple[Edges, dict[str, set[str]]]:
    """Links by the switches that they join: ports are dealt out in the order of the groups."""
    edges: Edges = {}
    of_group: dict[str, set[str]] = defaultdict(set)
    ports: dict[tuple[int, int], str] = {}
    for group in range(d.groups):
        routers = [f"r{group * d.routers + each}" for each in range(d.routers)]
        of_group[str(group)] = set(routers)
        for one, other in combinations(routers, 2):
            edges[one, other] = f"router {one[1:]} - {other[1:]}"
        others = [each for each in range(d.groups) if each != group]
        slots = [router for router in routers for _ in range(d.global_ports)]
        ports |= {(group, to): slot for to, slot in zip(others, slots, strict=False)}
    for left, right in combinations(range(d.groups), 2):
        edges[ports[left, right], ports[right, left]] = f"group {left} - {right}"
    for server in range(d.gpus // d.gpus_per_server):
        edges[f"s{server}", f"r{server // d.servers}"] = f"server {server}"
    return edges, of_group


@pytest.mark.parametrize(
    "sizes", [(5, 4, 1, 1, 1), (9, 4, 2, 1, 2), (3, 2, 2, 2, 1), (1, 3, 2, 1, 1), (2, 1, 2, 1, 1)]
)
def test_ways_in_a_dragonfly(sizes: tuple[int, int, int, int, int]) -> None:
    groups, routers, servers, gpus, ports = sizes
    d = DragonflyTopology("d", groups, routers, servers, gpus, 100, 200, 400, ports)
    edges, of_group = dragonfly_edges(d)
    assert sorted(edges.values()) == sorted(d.capacities)
    per_group = d.gpus // d.groups
    pairs = list(combinations(range(d.gpus), 2))
    rng = np.random.default_rng(0)
    for place in rng.choice(len(pairs), min(150, len(pairs)), replace=False):
        a, b = pairs[int(place)]
        here, there = (f"s{each // d.gpus_per_server}" for each in (a, b))
        if here == there:
            assert d.links_of([a, b]) == ()
            continue
        # Minimal routing stays in the two groups, though two global links may be fewer hops.
        allowed = of_group[str(a // per_group)] | of_group[str(b // per_group)] | {here, there}
        assert [set(d.links_of([a, b]))] == shortest(edges, here, there, allowed)


TREES = {
    "leaf and spine": leaf_spine(
        "t", servers=6, gpus_per_server=2, servers_per_leaf=2, server_gbps=100
    ),
    "fat tree": fat_tree("t", ports=4, server_gbps=100),
    "islands": TreeTopology("t", (SwitchLevel("island", 4, 400), SwitchLevel("row", 2, 800)), 3),
    "cassini": get_topology("cassini"),
}


@pytest.mark.parametrize("name", TREES)
def test_ways_in_a_tree(name: str) -> None:
    tree = TREES[name]
    assert isinstance(tree, TreeTopology)
    edges: Edges = {}
    size, inner = 1, "gpu"
    for level in (*tree.levels, SwitchLevel("top", tree.units, 1)):
        for gpu in range(0, tree.gpus, size):
            below, above = f"{inner} {gpu // size}", f"{level.name} {gpu // (size * level.size)}"
            edges[below, above] = "inside" if inner == "gpu" else below
        size, inner = size * level.size, level.name
    for a, b in combinations(range(tree.gpus), 2):
        (way,) = shortest(edges, f"gpu {a}", f"gpu {b}")
        assert set(tree.links_of([a, b])) == way - {"inside"}


def test_ways_on_rails_stay_on_their_rail() -> None:
    pod = rails("r", servers=3, gpus_per_server=4, gpu_gbps=400, groups=2)
    for a, b in combinations(range(pod.gpus), 2):
        used = pod.links_of([a, b])
        if a // 4 == b // 4:
            assert used == ()
        elif a % 4 == b % 4:
            same = {f"server {a // 4} rail {a % 4}", f"server {b // 4} rail {a % 4}"}
            apart = {f"group {a // 12} rail {a % 4}", f"group {b // 12} rail {a % 4}"}
            assert set(used) == (same if a // 12 == b // 12 else same | apart)


def test_topologies_that_cannot_be_are_named(tmp_path: Path) -> None:
    with pytest.raises(ap.InputError, match=r"level 'server' of 'r' has 3 rails for 8 GPUs"):
        TreeTopology("r", (SwitchLevel("server", 8, 800, 3),), 2)
    levels = (SwitchLevel("server", 8, 800, 4), SwitchLevel("leaf", 2, 800, 8))
    with pytest.raises(ap.InputError, match=r"'leaf' of 'r' has 8 rails over the 4 of 'server'"):
        TreeTopology("r", levels, 2)
    with pytest.raises(ap.InputError, match=r"10 groups; 4 routers with 2 global_ports.*at most 9"):
        DragonflyTopology("d", 10, 4, 1, 1, 100, 100, 100, 2)
    file = tmp_path / "mine.toml"
    text = (
        'kind = "dragonfly"\ngroups = 9\nrouters = 4\nservers = 2\ngpus_per_server = 8\n'
        "server_gbps = 400\nlocal_gbps = 800\nglobal_gbps = 1600\nglobal_ports = 2\n"
    )
    file.write_text(text)
    assert get_topology(str(file)) == DragonflyTopology("mine", 9, 4, 2, 8, 400, 800, 1600, 2)
    for old, new, message in (
        ("groups = 9\n", "", "the dragonfly has no groups"),
        ("groups = 9", "groups = 0", "The groups of 'mine' is 0"),
        ("local_gbps", "local_gb", "no local_gbps"),
        ("servers = 2", "servers = 2\nrails = 2", "key of the dragonfly 'rails'"),
        ("dragonfly", "dragonfl", "Did you mean 'dragonfly'"),
    ):
        file.write_text(text.replace(old, new))
        with pytest.raises(ap.InputError, match=message):
            get_topology(str(file))


def test_paths_that_cannot_be_chosen_are_named() -> None:
    hashed, gangs = get_topology("cassini_leaves_of_four"), {"a": [0, 4]}
    assert isinstance(hashed, ParallelUplinks)
    tree: Any = get_topology("cassini")
    with pytest.raises(ap.InputError, match="among ParallelUplinks only"):
        chosen_paths(tree, gangs, {"a": 1.0}, {})
    with pytest.raises(ap.InputError, match="no rate of the gang 'a'"):
        chosen_paths(hashed, gangs, {}, {})
    with pytest.raises(ap.InputError, match="gbps of gang 'a' is nan"):
        chosen_paths(hashed, gangs, {"a": float("nan")}, {})
    with pytest.raises(ap.InputError, match="GPU 4 is given to both"):
        chosen_paths(hashed, {**gangs, "b": [4, 5]}, {"a": 1.0, "b": 1.0}, {})
