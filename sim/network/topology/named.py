"""Topologies by name, by the numbers that describe them, and from toml files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apportion.checks import file_path, listed, number, whole
from apportion.errors import InputError, unknown_name, written
from apportion.registry import Registry
from apportion.sim.network.topology import Topology
from apportion.sim.network.topology.paths import ParallelUplinks
from apportion.sim.network.topology.tree import SwitchLevel, TreeTopology
from apportion.text_files import read_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def leaf_spine(
    name: str,
    *,
    servers: int,
    gpus_per_server: int,
    servers_per_leaf: int,
    server_gbps: float,
    oversubscription: float = 1.0,
) -> TreeTopology:
    """Return servers under leaves under a spine.

    Parameters
    ----------
    name
        As results show it.
    servers, servers_per_leaf
        The leaves must come out whole.
    gpus_per_server
        GPUs that share the link of a server.
    server_gbps
        Of the link from a server to its leaf, Gb/s.
    oversubscription
        Gb/s of the servers of a leaf over those from the leaf to the spine.
    """
    leaves, rest = divmod(
        whole("servers", servers, 1), whole("servers_per_leaf", servers_per_leaf, 1)
    )
    if rest:
        raise InputError(f"{servers} servers do not fill leaves of {servers_per_leaf}.")
    upwards = servers_per_leaf * server_gbps / number("oversubscription", oversubscription, least=1)
    levels = (
        SwitchLevel("server", gpus_per_server, server_gbps),
        SwitchLevel("leaf", servers_per_leaf, upwards),
    )
    return TreeTopology(name, levels, leaves)


def fat_tree(
    name: str, *, ports: int, server_gbps: float, gpus_per_server: int = 1
) -> TreeTopology:
    """Return a fat tree of switches with so many ports (Al-Fares et al., SIGCOMM 2008).

    ports / 2 servers under an edge switch, ports / 2 edge switches in a pod, as many pods as
    ports; as much bandwidth upwards as downwards everywhere.
    """
    if whole("ports", ports, 2) % 2:
        raise InputError(f"ports is {ports}; it must be even.")
    half = ports // 2
    levels = (
        SwitchLevel("server", gpus_per_server, server_gbps),
        SwitchLevel("edge", half, half * server_gbps),
        SwitchLevel("pod", half, half**2 * server_gbps),
    )
    return TreeTopology(name, levels, ports)


def rails(
    name: str, *, servers: int, gpus_per_server: int, gpu_gbps: float, groups: int = 1
) -> TreeTopology:
    """Return servers whose GPUs have a port each, those of one number on one switch.

    Parameters
    ----------
    name
        As results show it.
    servers
        Of each group, all GPUs 0 of which are on one switch, all GPUs 1 on another, and so on.
    gpus_per_server
        GPUs and so rails.
    gpu_gbps
        Of the port of a GPU.
    groups
        Groups, joined by a spine without oversubscription.
    """
    server = gpus_per_server * gpu_gbps
    levels = (
        SwitchLevel("server", gpus_per_server, server, gpus_per_server),
        SwitchLevel("group", servers, servers * server, gpus_per_server),
    )
    return TreeTopology(name, levels, groups)


def _cassini() -> TreeTopology:
    return leaf_spine(
        "cassini",
        servers=24,
        gpus_per_server=1,
        servers_per_leaf=2,
        server_gbps=50.0,
        oversubscription=2.0,
    )


def _cassini_leaves_of_four() -> ParallelUplinks:
    tree = leaf_spine(
        "cassini_leaves_of_four",
        servers=24,
        gpus_per_server=1,
        servers_per_leaf=4,
        server_gbps=50.0,
        oversubscription=2.0,
    )
    return ParallelUplinks(tree, {"leaf": 2})


def _gb200() -> TreeTopology:
    rack = SwitchLevel("rack", 72, 72 * 400.0, 4)
    return TreeTopology("gb200_nvl72", (rack, SwitchLevel("group", 8, 8 * 72 * 400.0, 4)), 4)


TOPOLOGY_PRESETS: Registry[Callable[[], Topology]] = Registry(
    "topology",
    "apportion.topologies",
    {
        "cassini": _cassini,
        "cassini_leaves_of_four": _cassini_leaves_of_four,
        "cassini_two_gpus": lambda: TreeTopology(
            "cassini_two_gpus", (SwitchLevel("server", 2, 50.0),), 6
        ),
        "dgx_h100_pod": lambda: rails(
            "dgx_h100_pod", servers=32, gpus_per_server=8, gpu_gbps=400.0, groups=4
        ),
        "gb200_nvl72": _gb200,
    },
    callable,
)
"""Makers of topologies, by name.

cassini: 24 servers of one GPU and 50 Gb/s (Rajasekaran et al., NSDI 2024, section 5.1); that two
servers share a leaf, with half their bandwidth upwards, is an assumption. cassini_leaves_of_four:
six leaves of four, with two uplinks of 50 Gb/s each: 24 + 12 links, which with 12 of spines make
the paper's 48; a gang's flows are hashed to one uplink of each leaf. cassini_two_gpus: six
servers of two GPUs, under one switch. dgx_h100_pod: four scalable units of 32 DGX H100, each with
eight rails of 400 Gb/s InfiniBand, not oversubscribed (NVIDIA DGX SuperPOD reference architecture
RA-11333, 2023). gb200_nvl72: four scalable units of eight racks of 72 GPUs in one NVLink domain,
one 400 Gb/s port for each GPU, on four rails as there are GPUs in a compute tray (NVIDIA DGX
SuperPOD reference architecture for DGX GB200, 2025). NVLink joins GPUs that no two gangs share, so
that it is no link here.
"""


def get_topology(topology: str | Topology) -> Topology:
    """Return a topology by its name, from a toml file (``*.toml``), or one's own.

    Raises
    ------
    InputError
        For an unknown name, a file that cannot be read, and something that is no topology.
    """
    if not isinstance(topology, str):
        if isinstance(topology, Topology):
            return topology
        raise InputError(f"{written(topology)} is no topology: it needs links_of and capacities.")
    if topology.endswith(".toml"):
        return read_topology(topology)
    if topology not in TOPOLOGY_PRESETS:
        shown = f"{', '.join(TOPOLOGY_PRESETS)}, or the path of a .toml file"
        raise unknown_name("topology", topology, TOPOLOGY_PRESETS, shown=shown)
    return TOPOLOGY_PRESETS[topology]()


def read_topology(path: str | Path) -> Topology:
    """Read a topology from a toml file.

    A topology is a tree. It has levels from the inside out, as many as one likes::

        name = "mine"
        kind = "tree"
        units = 4                   # of the outermost level

        [[levels]]
        name = "server"
        size = 8                    # GPUs
        uplink_gbps = 3200
        rails = 8                   # 1 if left out; or parallel_links = 2, see ParallelUplinks

        [[levels]]
        name = "leaf"
        size = 16                   # servers
        oversubscription = 2        # or uplink_gbps

    Raises
    ------
    InputError
        If the file cannot be read, or a key is missing, unknown or of a wrong value; it names the
        file and the key.
    """
    file = file_path("The topology", path)
    told = read_text(file).toml()
    try:
        return _topology(told, file.stem)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _topology(told: dict[str, Any], stem: str) -> Topology:
    kind = told.get("kind")
    if kind != "tree":
        raise unknown_name("kind of topology", kind, ["tree"])
    _check_keys("the tree", told, {"kind", "units", "levels"}, {"name", "seed"})
    levels: list[SwitchLevel] = []
    for each in listed("levels", told["levels"], "a list of [[levels]]"):
        levels.append(_level(each, levels[-1].uplink_gbps if levels else None))
    tree = TreeTopology(told.get("name", stem), tuple(levels), told["units"])
    links = {
        str(each["name"]): each["parallel_links"]
        for each in told["levels"]
        if "parallel_links" in each
    }
    if not links:
        return tree
    return ParallelUplinks(tree, links, told.get("seed", 0))


def _level(told: Any, below_gbps: float | None) -> SwitchLevel:
    """Read a level; below_gbps is the uplink of a unit of the level below."""
    if not isinstance(told, dict):
        raise InputError(f"A level is {written(told)}; write it as [[levels]].")
    where = f"the level {told.get('name')!r}"
    _check_keys(where, told, {"name", "size"}, _LEVEL_KEYS)
    if ("uplink_gbps" in told) == ("oversubscription" in told):
        raise InputError(f"{where} needs uplink_gbps or oversubscription, and not both.")
    uplink_gbps = told.get("uplink_gbps")
    if uplink_gbps is None:
        if below_gbps is None:
            raise InputError(f"{where} is innermost: it needs uplink_gbps, not oversubscription.")
        ratio = number(f"The oversubscription of {where}", told["oversubscription"], strict=True)
        uplink_gbps = whole(f"The size of {where}", told["size"], 1) * below_gbps / ratio
    return SwitchLevel(told["name"], told["size"], uplink_gbps, told.get("rails", 1))


_LEVEL_KEYS = {"uplink_gbps", "oversubscription", "rails", "parallel_links"}


def _check_keys(where: str, told: dict[str, Any], needed: set[str], more: set[str]) -> None:
    for key in sorted(needed - set(told)):
        raise InputError(f"{where} has no {key}.")
    for key in told:
        if key not in needed | more:
            raise unknown_name(f"key of {where}", key, sorted(needed | more))
