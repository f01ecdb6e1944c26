from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import apportion as ap
from apportion.cluster import Cluster
from apportion.errors import InputError
from apportion.sim.network import (
    ALL_REDUCES,
    NETWORKS,
    Exchange,
    Layer,
    ModelProfile,
    NoNetwork,
    Shape,
    StaticNetwork,
    canonical_shape,
    get_network,
    model_profiles,
    tier_of,
)

CLUSTER = Cluster.of_racks(16)
MODELS = sorted(model_profiles())
RACK = st.lists(st.integers(1, 8), min_size=1, max_size=8)
SHAPES = st.lists(RACK, min_size=1, max_size=4).map(canonical_shape)
# Fast enough to matter: 1 ms of compute, where the physical network is not hidden.
HURRIED = {model: profile.scaled(1e-3) for model, profile in model_profiles().items()}


class Counting:
    name = "counting"

    def __init__(self) -> None:
        self.asked: list[tuple[str, Shape]] = []

    def overhead(self, job_type: str, shape: Shape) -> float:
        self.asked.append((job_type, shape))
        return 0.5


OF_DALLY = sorted(name for name in NETWORKS if not name.startswith(("cassini", "phases")))


@settings(max_examples=60)
@given(st.sampled_from(OF_DALLY), st.sampled_from(MODELS), SHAPES)
def test_overheads_are_never_negative(name: str, model: str, shape: Shape) -> None:
    network = get_network(name, cluster=CLUSTER)
    assert network.name == name
    assert network.overhead(model, shape) >= 0
    assert network.overhead(model, ((1,),)) == 0


@settings(max_examples=60)
@given(st.sampled_from(MODELS), RACK.filter(lambda rack: sum(rack) <= 8))
def test_one_machine_is_never_slower_than_several(model: str, rack: list[int]) -> None:
    network = get_network("alpha_beta", cluster=CLUSTER, profiles=HURRIED)
    together = network.overhead(model, ((sum(rack),),))
    assert together <= network.overhead(model, canonical_shape([rack])) + 1e-12


@settings(max_examples=60)
@given(
    st.sampled_from(MODELS),
    st.lists(RACK, min_size=2, max_size=4).filter(lambda racks: sum(map(len, racks)) <= 8),
)
def test_one_rack_is_never_slower_than_several(model: str, racks: list[list[int]]) -> None:
    network = get_network("alpha_beta", cluster=CLUSTER, profiles=HURRIED)
    together = canonical_shape([[gpus for rack in racks for gpus in rack]])
    apart = canonical_shape(racks)
    assert tier_of(together) < tier_of(apart)
    assert network.overhead(model, together) <= network.overhead(model, apart) + 1e-12


@pytest.mark.parametrize("gpus", [2, 4, 6, 8])
@pytest.mark.parametrize("model", MODELS)
def test_a_tighter_tier_is_never_slower(model: str, gpus: int) -> None:
    network = get_network("alpha_beta", cluster=CLUSTER, profiles=HURRIED)
    half = gpus // 2
    shapes: list[Shape] = [((gpus,),), ((half, half),), ((half,), (half,))]
    overheads = [network.overhead(model, shape) for shape in shapes]
    assert overheads == sorted(overheads)
    assert overheads[0] < overheads[2]


def test_a_model_is_asked_once_per_job_type_and_shape() -> None:
    counting = Counting()
    network = get_network(counting, cluster=CLUSTER)
    for _ in range(3):
        assert network.overhead("VGG11", ((8,), (4, 4))) == 0.5
        assert network.overhead("VGG11", ((4, 4), (8,))) == 0.5
    assert counting.asked == [("VGG11", ((4, 4), (8,)))] * 2
    assert network.overhead("VGG11", ((1,),)) == 0
    assert len(counting.asked) == 2
    again = get_network(network, cluster=CLUSTER)
    assert again.model is counting


def test_shapes_that_the_cluster_cannot_hold_are_refused() -> None:
    network = get_network("table1", cluster=Cluster.of_racks(2, machines_per_rack=2))
    with pytest.raises(InputError, match="does not fit machines of 8 GPUs"):
        network.overhead("VGG11", ((9,),))
    with pytest.raises(InputError, match="does not fit racks of 2 machines"):
        network.overhead("VGG11", ((8, 8, 8),))
    network = get_network("table1", cluster=Cluster({"gpu": 64}))
    with pytest.raises(InputError, match="does not fit a single rack"):
        network.overhead("VGG11", ((4,), (4,)))


def test_names_and_options_are_checked() -> None:
    with pytest.raises(InputError, match=r"Unknown network 'table_1'.*Did you mean 'table1'"):
        get_network("table_1", cluster=CLUSTER)
    with pytest.raises(InputError, match="'none' takes no options"):
        get_network("none", cluster=CLUSTER, flat_if_unbalanced=True)
    with pytest.raises(InputError, match="without options"):
        get_network(NoNetwork(), cluster=CLUSTER, profiles={})
    with pytest.raises(InputError, match="The network is 7"):
        get_network(7, cluster=CLUSTER)  # type: ignore[arg-type]


class Says:
    name = "says"

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def overhead(self, job_type: str, shape: Shape) -> object:
        return self.answer


NO_OVERHEADS = [-0.5, -1, float("nan"), float("inf"), True, None, "x", 1j, np.array([0.1])]


@pytest.mark.parametrize("answer", NO_OVERHEADS, ids=str)
@pytest.mark.parametrize("mechanism", ["rounds", "leases"])
def test_what_is_no_overhead_is_refused(mechanism: str, answer: object) -> None:
    words = r"overhead of job type '\w+' is .*finite number >= 0.*network 'says'"
    network = get_network(Says(answer), cluster=CLUSTER)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=words):
        network.overhead("VGG11", ((2,),))
    assert network.overhead("VGG11", ((1,),)) == 0
    load, racks = ap.generate_rack_workload(jobs=2, seed=1), Cluster.of_racks(2)
    with pytest.raises(InputError, match=words):
        ap.simulate("fifo", load, racks, mechanism=mechanism, network=Says(answer))


@pytest.mark.parametrize("algorithm", ALL_REDUCES)
def test_each_tier_reduces_by_an_algorithm_of_its_own(algorithm: str) -> None:
    """One message behind all compute: its seconds over the compute, by the textbook's formulas."""
    layers = (Layer("all", 1e-3, 0.0, 1e-3, Exchange("all_reduce", 1e9)),)
    network = get_network(
        "alpha_beta",
        cluster=CLUSTER,
        profiles={"Mine": ModelProfile("Mine", layers)},
        all_reduce={"rack": algorithm},
    )
    levels = 7 if algorithm == "ring" else 3
    passes = 1 if algorithm == "recursive_doubling" else 2  # of which each crosses the rack
    bytes_s = levels if "tree" in algorithm or "recursive" in algorithm else 7 / 8
    rack_s = passes * levels * 2 * 2.5e-6 + passes * bytes_s * 1e9 / 50e9
    assert network.overhead("Mine", ((1,) * 8,)) == pytest.approx(rack_s / 2e-3)
    ring_s = 2 * 7 * 2 * 0.25e-6 + 2 * 7 / 8 * 1e9 / 450e9
    assert network.overhead("Mine", ((8,),)) == pytest.approx(ring_s / 2e-3)


def test_algorithms_and_orders_are_for_networks_of_messages() -> None:
    with pytest.raises(InputError, match="Unknown all-reduce algorithm of tier 'rack' 'tree'"):
        get_network("alpha_beta", cluster=CLUSTER, all_reduce={"rack": "tree"})
    with pytest.raises(InputError, match="tier of order 'racks'"):
        get_network("alpha_beta", cluster=CLUSTER, order={"racks": "lifo"})
    with pytest.raises(InputError, match="'table1' has no order to choose"):
        get_network("table1", cluster=CLUSTER, order="lifo")


def test_static_penalties_hang_on_the_tier_alone() -> None:
    network = StaticNetwork((1.0, 0.5, 0.25), {"Mine": (0.8, 0.4, 0.2)})
    shapes: list[Shape] = [((8,),), ((8, 1),), ((4,), (4,))]
    assert [network.overhead("x", shape) for shape in shapes] == [0.0, 1.0, 3.0]
    assert [network.overhead("Mine", shape) for shape in shapes] == [0.25, 1.5, 4.0]
    with pytest.raises(InputError, match="of 'x' has 2 parts"):
        StaticNetwork(by_model={"x": (1.0, 0.5)})
    with pytest.raises(InputError, match="at tier 'rack'"):
        StaticNetwork((1.0, 1.5, 0.5))
