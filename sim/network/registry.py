"""Network models by name, and the interconnects that presets use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeGuard

from apportion.annotations import checked
from apportion.checks import mapping
from apportion.cluster import Cluster
from apportion.errors import InputError, unknown_name, written
from apportion.registry import Registry
from apportion.sim.network.analytic import AnalyticNetwork, StaticNetwork, Table1Network
from apportion.sim.network.cassini import CassiniNetwork
from apportion.sim.network.contention import ContentionNetwork, PhaseNetwork
from apportion.sim.network.interconnect import Dimension, Interconnect
from apportion.sim.network.model import MemoizedNetwork, NetworkModel, NoNetwork
from apportion.sim.network.models.table_i import model_profiles, scaled_profiles
from apportion.sim.network.models.trained import table_iii_profiles
from apportion.sim.network.profile import ModelProfile

if TYPE_CHECKING:
    from apportion.sim.network.topology import Topology

_GIBIBYTE = 2.0**30  # what ASTRA-sim counts as a gigabyte

TABLE1_INTERCONNECT = Interconnect(
    machine=(
        Dimension("machine", "fully_connected", 600 * _GIBIBYTE, 0.0, size=4, links_per_unit=1),
        Dimension("machine", "ring", 600 * _GIBIBYTE, 500e-9, links_per_unit=1),
    ),
    rack=Dimension("rack", "ring", 200 * _GIBIBYTE, 5e-6, links_per_unit=1),
    network=Dimension("network", "switch", 400 * _GIBIBYTE, 50e-6, links_per_unit=1),
    pipelined=True,
)
"""Figures that Dally's authors gave to ASTRA-sim: GPUs in fours, two fours to a machine.

Their simulator gives every dimension as many links as it has units.
"""

_NVSWITCH_BYTES_PER_S = 450e9
_INFINIBAND_BYTES_PER_S = 50e9
_ETHERNET_BYTES_PER_S = 100e9

PHYSICAL = Interconnect(
    machine=(Dimension("machine", "switch", _NVSWITCH_BYTES_PER_S, 0.25e-6),),
    rack=Dimension("rack", "switch", _INFINIBAND_BYTES_PER_S, 2.5e-6),
    # Traffic between racks leaves through the GPU's own InfiniBand port, which limits it.
    network=Dimension(
        "network", "switch", min(_INFINIBAND_BYTES_PER_S, _ETHERNET_BYTES_PER_S), 10e-6
    ),
)
"""Data-sheet bandwidths of the hardware that Dally's paper names, per GPU and direction.

NVSwitch 450 GB/s; Quantum-2 InfiniBand 400 Gb/s between the machines of a rack; Spectrum-4
Ethernet 800 Gb/s between racks. End to end, over two hops, latencies are 0.5, 5 and 20 us. They
are assumptions: the paper states none.
"""


_TABLE1_UPDATE_DELAYS = {"ResNet50": 0.12}
"""Fixed delays in the authors' workload file, over compute time; no other model has any."""

Profiles = Mapping[str, ModelProfile]
ByTier = str | Mapping[str, str]


def _alpha_beta(
    profiles: Profiles, *, flat_if_unbalanced: bool = False, **by_tier: ByTier
) -> AnalyticNetwork:
    known = {**model_profiles(), **profiles}
    return AnalyticNetwork("alpha_beta", PHYSICAL.choosing(**by_tier), known, flat_if_unbalanced)


def _alpha_beta_halving_doubling(profiles: Profiles, **options: Any) -> AnalyticNetwork:
    made = _alpha_beta(profiles, **{"all_reduce": "halving_doubling", **options})
    return replace(made, name="alpha_beta_halving_doubling")


def _table1_model(
    profiles: Profiles, *, flat_if_unbalanced: bool = False, **by_tier: ByTier
) -> AnalyticNetwork:
    known, links = {**scaled_profiles(), **profiles}, TABLE1_INTERCONNECT.choosing(**by_tier)
    return AnalyticNetwork("table1_model", links, known, flat_if_unbalanced, _TABLE1_UPDATE_DELAYS)


def _table1(profiles: Profiles, *, flat_if_unbalanced: bool = True) -> Table1Network:
    analytic = _table1_model(profiles, flat_if_unbalanced=flat_if_unbalanced)
    return Table1Network(analytic, flat_if_unbalanced)


def _static(profiles: Profiles) -> StaticNetwork:
    if profiles:
        raise InputError(
            "The network 'static' has no profiles: give a StaticNetwork(by_model={job_type: "
            "(machine, rack, network)}) in place of its name."
        )
    return StaticNetwork()


def _contention(profiles: Profiles) -> ContentionNetwork:
    return ContentionNetwork({**_known_to_contention(), **profiles})


def _contention_expected(profiles: Profiles) -> ContentionNetwork:
    return ContentionNetwork({**_known_to_contention(), **profiles}, expected=True)


def _on_links(
    network: type[CassiniNetwork], *, shifted: bool
) -> Callable[[Profiles], CassiniNetwork]:
    def make(profiles: Profiles) -> CassiniNetwork:
        made = network(shifted=shifted)
        if profiles:
            raise InputError(
                f"The network {made.name!r} has communication profiles, no ModelProfile: give a "
                f"{network.__name__}(profiles={{job_type: CommunicationProfile(...)}}) in place of "
                f"its name."
            )
        return made

    return make


def _known_to_contention() -> Profiles:
    """Return the models of Dally and of Table III; of ResNet-50 the latter."""
    others = {name: each for name, each in model_profiles().items() if name != "ResNet50"}
    return {**others, **table_iii_profiles()}


NETWORKS: Registry[Callable[..., NetworkModel]] = Registry(
    "network",
    "apportion.networks",
    {
        "none": lambda _profiles: NoNetwork(),
        "table1": _table1,
        "alpha_beta": _alpha_beta,
        "alpha_beta_halving_doubling": _alpha_beta_halving_doubling,
        "table1_model": _table1_model,
        "static": _static,
        "contention": _contention,
        "contention_expected": _contention_expected,
        "cassini": _on_links(CassiniNetwork, shifted=True),
        "cassini_unshifted": _on_links(CassiniNetwork, shifted=False),
        "phases": _on_links(PhaseNetwork, shifted=True),
        "phases_unshifted": _on_links(PhaseNetwork, shifted=False),
    },
    callable,
)
"""Makers of network models, by name: each is given profiles of models, and options by name."""

BY_SHAPE = (
    *("none", "table1", "alpha_beta", "alpha_beta_halving_doubling", "table1_model"),
    "static",
)
"""Those in which what a gang loses hangs on its own shape, and not on its neighbours."""


_NO_RINGS = ("contention", "cassini", "phases", "static")
_ANALYTIC = ("alpha_beta", "alpha_beta_halving_doubling", "table1_model")
"""Those made of messages, of which algorithms and orders can be chosen."""


def on_topology(network: Any, topology: str | Topology | None) -> Any:
    """Return a network with the links of a topology, as a setting names it; None changes nothing.

    Raises
    ------
    InputError
        If the network knows no links, and as `get_topology`.
    """
    if topology is None:
        return network
    model = NETWORKS[network]({}) if isinstance(network, str) and network in NETWORKS else network
    if not hasattr(model, "with_topology"):
        raise InputError(
            f"topology={written(topology)} says which links there are; network={written(network)} "
            f"knows none. Give 'cassini', 'phases', one of these with '_unshifted', or a "
            f"CassiniNetwork; or leave the topology out."
        )
    return model.with_topology(topology)


@checked
def get_network(
    network: str | NetworkModel,
    *,
    cluster: Cluster,
    flat_if_unbalanced: bool | None = None,
    profiles: Profiles | None = None,
    all_reduce: ByTier | None = None,
    order: ByTier | None = None,
) -> MemoizedNetwork:
    """Network model by name, or one's own, ready for a cluster.

    Parameters
    ----------
    network
        ``"none"``: communication is free. ``"table1"``: Dally's Table I. ``"alpha_beta"``: the
        analytic model with data-sheet figures. ``"table1_model"``: the analytic model with the
        figures of Dally's authors. ``"alpha_beta_halving_doubling"``: ``"alpha_beta"`` with that
        algorithm in every tier. ``"static"``: one factor by tier, see `StaticNetwork`.
        ``"contention"``: gangs in several machines slow each other
        down where they share one, see `ContentionNetwork`; ``"contention_expected"``: the same
        with parts of their time. ``"cassini"``: their phases meet on links, see `CassiniNetwork`;
        ``"cassini_unshifted"``: the same with random starts. ``"phases"``, ``"phases_unshifted"``:
        likewise, but as long as the engine of phases says, see `PhaseNetwork`. Or any
        `NetworkModel`.
    cluster
        Shapes that it cannot hold are refused. Overheads are remembered for it.
    flat_if_unbalanced
        Whether gangs that do not divide evenly form one flat ring. ``None``: as the authors' code
        for ``"table1"``, else not.
    profiles
        Models beside the built-in ones, by name; one of the same name replaces the built-in one.
    all_reduce
        Algorithm of all-reduces, ``"ring"``, ``"halving_doubling"``, ``"recursive_doubling"`` or
        ``"binary_tree"``: one for all, or by tier, ``{"rack": "halving_doubling"}``. For
        ``"alpha_beta"`` and ``"table1_model"``, whose rings it stands in place of.
    order
        Which waiting message is next, ``"fifo"`` or ``"lifo"``, likewise.

    Raises
    ------
    InputError
        For an unknown name, something that is no network model, and options that a model does
        not take.
    """
    cluster = Cluster.of(cluster)
    given = {"flat_if_unbalanced": flat_if_unbalanced, "all_reduce": all_reduce, "order": order}
    options: dict[str, Any] = {name: each for name, each in given.items() if each is not None}
    if isinstance(network, type):
        kind = network.__name__
        raise InputError(f"network is the class {kind}; write network={kind}(...).")
    if isinstance(network, str):
        return MemoizedNetwork(_by_name(network, profiles, options), cluster)
    if options or profiles is not None or not _is_model(network):
        raise InputError(
            f"The network is {network!r}; it must be one of {', '.join(NETWORKS)}, or an "
            "object with a name and overhead(job_type, shape), without options."
        )
    again = getattr(network, "on_cluster", None)
    return MemoizedNetwork(network, cluster) if again is None else again(cluster)


def _is_model(value: Any) -> TypeGuard[NetworkModel]:
    """Whether a value has what a network needs."""
    return isinstance(value, NetworkModel)


def _by_name(network: str, profiles: Profiles | None, options: Mapping[str, Any]) -> NetworkModel:
    """Make the network of a name with its options, and refuse those that it does not take."""
    if profiles is not None:
        profiles = mapping("profiles", profiles, "a mapping from models to their ModelProfile")
        for name, profile in profiles.items():
            if not isinstance(profile, ModelProfile):
                raise InputError(f"The profile of {name!r} is no ModelProfile.")
    if network not in NETWORKS:
        raise unknown_name("network", network, NETWORKS)
    if network.startswith(_NO_RINGS) and "flat_if_unbalanced" in options:
        raise InputError(f"The network {network!r} has no rings; leave out flat_if_unbalanced.")
    for name in ("all_reduce", "order"):
        if name in options and network not in _ANALYTIC:
            raise InputError(
                f"The network {network!r} has no {name} to choose; leave it out, or use "
                f"{' or '.join(map(repr, _ANALYTIC))}."
            )
    if network == "none" and (options or profiles is not None):
        raise InputError("The network 'none' takes no options; leave out the others or choose one.")
    made = NETWORKS[network](profiles or {}, **options)
    if not _is_model(made):
        raise InputError(
            f"What makes the network {network!r} returned {written(made)}; it must return an "
            f"object with a name and overhead(job_type, shape)."
        )
    return made
