from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import apportion as ap
from apportion.errors import InputError
from apportion.sim.network import (
    TOPOLOGY_PRESETS,
    ParallelUplinks,
    SwitchLevel,
    Topology,
    TreeTopology,
    chosen_paths,
    fat_tree,
    get_topology,
    jobs_on_links,
    leaf_spine,
    rails,
    read_topology,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_the_servers_of_the_paper() -> None:
    cassini = get_topology("cassini")
    assert cassini.gpus == 24
    assert cassini.links_of([5]) == ()
    assert cassini.links_of([4, 5]) == ("server 4", "server 5")
    assert cassini.links_of([5, 6]) == ("server 5", "server 6", "leaf 2", "leaf 3")
    assert cassini.capacities["server 0"] == 50
    assert cassini.capacities["leaf 0"] == 50  # 2:1 oversubscribed
    two = get_topology("cassini_two_gpus")
    assert two.gpus == 12
    assert two.links_of([0, 1]) == ()
    assert two.links_of([1, 2]) == ("server 0", "server 1")


def test_a_fat_tree_of_four_ports() -> None:
    tree = fat_tree("tree", ports=4, server_gbps=100)
    assert tree.gpus == 16
    assert tree.links_of([0, 1]) == ("server 0", "server 1")
    assert tree.links_of([0, 2]) == ("server 0", "server 2", "edge 0", "edge 1")
    assert tree.links_of([0, 15])[2:] == ("edge 0", "edge 7", "pod 0", "pod 3")
    by_level: dict[str, float] = {}
    for link, gbps in tree.capacities.items():
        by_level[link.split()[0]] = by_level.get(link.split()[0], 0) + gbps
    assert by_level == {"server": 1600, "edge": 1600, "pod": 1600}


def test_a_rack_of_72_gpus_has_no_links_inside() -> None:
    racks = get_topology("gb200_nvl72")
    assert racks.gpus == 4 * 8 * 72
    assert racks.links_of(range(72)) == ()
    assert racks.links_of([0, 72]) == ("rack 0 rail 0", "rack 1 rail 0")
    assert racks.capacities["rack 0 rail 0"] == 72 * 400 / 4


@pytest.mark.parametrize("name", [*TOPOLOGY_PRESETS])
def test_links_of_random_gangs(name: str) -> None:
    topology = get_topology(name)
    assert isinstance(topology, Topology)
    rng = np.random.default_rng(0)
    for _ in range(20):
        gang = rng.choice(topology.gpus, int(rng.integers(1, 12)), replace=False).tolist()
        links = topology.links_of(gang)
        assert set(links) <= set(topology.capacities)
        assert len(set(links)) == len(links)
        assert links == topology.links_of(gang[::-1] + gang)
        assert len(links) != 1


FOUR_TIERS = """
name = "four tiers"
kind = "tree"
units = 2

[[levels]]
name = "server"
size = 8
uplink_gbps = 3200
rails = 8

[[levels]]
name = "leaf"
size = 4
oversubscription = 2

[[levels]]
name = "pod"
size = 3
oversubscription = 4

[[levels]]
name = "hall"
size = 2
uplink_gbps = 1000
"""


def test_a_fourth_tier_is_data(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(FOUR_TIERS)
    mine = get_topology(str(file))
    assert mine == TreeTopology(
        "four tiers",
        (
            SwitchLevel("server", 8, 3200, 8),
            SwitchLevel("leaf", 4, 6400),
            SwitchLevel("pod", 3, 4800),
            SwitchLevel("hall", 2, 1000),
        ),
        2,
    )
    assert mine.gpus == 8 * 4 * 3 * 2 * 2
    assert mine.links_of([0, 8 * 4 * 3 * 2]) == (
        *["server 0 rail 0", "server 24 rail 0", "leaf 0", "leaf 6", "pod 0", "pod 2"],
        *["hall 0", "hall 1"],
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('kind = "tree"', "", "kind of topology None"),
        ('kind = "tree"', 'kind = "tre"', "Did you mean 'tree'"),
        ("units = 2", "", "the tree has no units"),
        ("units = 2", "units = 0", "The units of 'four tiers' is 0"),
        ("units = 2", "units = 2\ncolour = 1", "key of the tree 'colour'"),
        ("size = 4", "", "the level 'leaf' has no size"),
        ("size = 4", "size = 4.5", "The size of the level 'leaf' is 4.5"),
        ("size = 2", "size = -1", "The size of level 'hall' is -1"),
        ("uplink_gbps = 1000", "", "'hall' needs uplink_gbps or oversubscription"),
        ("uplink_gbps = 1000", "uplink_gbps = 0", "uplink_gbps of level 'hall' is 0"),
        ("uplink_gbps = 3200", "oversubscription = 2", "'server' is innermost"),
        ("oversubscription = 4", "oversubscription = 0", "oversubscription of the level 'pod'"),
        ("rails = 8", "rail = 8", "Did you mean 'rails'"),
        ('"hall"', '"pod"', "names of their own"),
        ("[[levels]]", "[levels]", "is no TOML"),
    ],
)
def test_bad_files_are_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(FOUR_TIERS.replace(old, new))
    with pytest.raises(ap.InputError, match=message) as raised:
        read_topology(file)
    assert "mine.toml" in str(raised.value)


def test_other_mistakes_are_named(tmp_path: Path) -> None:
    with pytest.raises(ap.InputError, match=r"topology 'casini'. Did you mean 'cassini'"):
        get_topology("casini")
    with pytest.raises(ap.InputError, match="is no topology"):
        get_topology(3)  # type: ignore[arg-type]
    with pytest.raises(ap.InputError, match="Cannot read"):
        read_topology(tmp_path / "none.toml")
    tree = get_topology("cassini")
    for gang in ([24], [-1], [0.5], ["a"]):
        with pytest.raises(ap.InputError, match="A GPU of 'cassini'"):
            tree.links_of(gang)  # type: ignore[arg-type]
    with pytest.raises(ap.InputError, match="no GPU"):
        tree.links_of([])
    with pytest.raises(ap.InputError, match="do not fill leaves"):
        leaf_spine("x", servers=5, gpus_per_server=1, servers_per_leaf=2, server_gbps=50)
    with pytest.raises(ap.InputError, match="must be even"):
        fat_tree("x", ports=3, server_gbps=50)
    with pytest.raises(ap.InputError, match="links; at most"):
        rails("x", servers=10**6, gpus_per_server=8, gpu_gbps=400)


def of_four(seed: int = 0) -> ParallelUplinks:
    tree = leaf_spine(
        "of four",
        servers=24,
        gpus_per_server=1,
        servers_per_leaf=4,
        server_gbps=50.0,
        oversubscription=2.0,
    )
    return ParallelUplinks(tree, {"leaf": 2}, seed)


def test_parallel_uplinks_are_links_of_their_own() -> None:
    """Every gang takes one of the two of each leaf that the tree says it uses, half of the time."""
    topology, rng = of_four(), np.random.default_rng(0)
    assert topology.capacities["leaf 0 link 1"] == 50
    assert len(topology.capacities) == 24 + 12
    first = other = differs = 0
    for _ in range(400):
        gang = rng.choice(24, 4, replace=False).tolist()
        used = topology.links_of(gang)
        assert used == topology.links_of(gang[::-1])
        assert [link.partition(" link ")[0] for link in used] == list(topology.tree.links_of(gang))
        assert set(used) <= topology.capacities.keys()
        first += sum(link.endswith("link 0") for link in used)
        other += sum(link.endswith("link 1") for link in used)
        differs += used != of_four(1).links_of(gang)
    assert 0.4 < first / (first + other) < 0.6
    assert differs > 300


def test_gangs_choose_the_idlest_link_in_the_order_of_their_intensity() -> None:
    gangs = {"light": [0, 4], "heavy": [1, 5], "last": [2, 6]}
    gbps = {"light": 10.0, "heavy": 20.0, "last": 5.0}
    topology = chosen_paths(of_four(), gangs, gbps, {"heavy": 3.0, "light": 2.0})
    on = jobs_on_links(topology, gangs)
    assert on["leaf 0 link 0"] == ("heavy",)
    assert on["leaf 0 link 1"] == ("light", "last")
    with pytest.raises(InputError, match="GPU 4 is given to both"):
        chosen_paths(of_four(), {"a": [0, 4], "b": [4, 5]}, {"a": 1.0, "b": 1.0}, {})
