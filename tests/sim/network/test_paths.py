"""Links of gangs of two against ways that are enumerated in a graph of all switches."""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations
from typing import Any

import pytest

import apportion as ap
from apportion.sim.network import (
    ParallelUplinks,
    SwitchLevel,
    TreeTopology,
    chosen_paths,
    fat_tree,
    get_topology,
    leaf_spine,
    rails,
)

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


def test_topologies_that_cannot_be_are_named() -> None:
    with pytest.raises(ap.InputError, match=r"level 'server' of 'r' has 3 rails for 8 GPUs"):
        TreeTopology("r", (SwitchLevel("server", 8, 800, 3),), 2)
    levels = (SwitchLevel("server", 8, 800, 4), SwitchLevel("leaf", 2, 800, 8))
    with pytest.raises(ap.InputError, match=r"'leaf' of 'r' has 8 rails over the 4 of 'server'"):
        TreeTopology("r", levels, 2)


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
