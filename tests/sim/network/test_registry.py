from __future__ import annotations

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.cluster import Cluster
from apportion.errors import InputError
from apportion.sim.network import (
    NETWORKS,
    NetworkModel,
    NoNetwork,
    Shape,
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


def test_with_compute_as_it_is_the_physical_network_hardly_matters() -> None:
    network = get_network("alpha_beta", cluster=CLUSTER)
    for model in MODELS:
        assert 0 < network.overhead(model, ((2, 2), (2, 2))) < 0.01


def test_flat_gangs_are_an_option_of_every_model_of_shapes() -> None:
    odd = ((6,), (5,), (5,))
    for name in ("table1", "table1_model", "alpha_beta"):
        overheads = [
            get_network(name, cluster=CLUSTER, flat_if_unbalanced=flat).overhead("VGG11", odd)
            for flat in (True, False)
        ]
        assert overheads[0] > overheads[1]


def test_without_a_network_communication_is_free() -> None:
    network = get_network("none", cluster=CLUSTER)
    assert network.overhead("anything", ((8, 8), (1,))) == 0
    assert isinstance(network, NetworkModel)


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


def test_a_network_can_be_sent_to_another_process() -> None:
    for name in NETWORKS:
        network = get_network(name, cluster=CLUSTER)
        network.overhead("VGG11", ((4, 4),))
        copy = pickle.loads(pickle.dumps(network))
        assert copy.overhead("VGG11", ((3,), (2,))) == network.overhead("VGG11", ((3,), (2,)))


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
