from __future__ import annotations

from itertools import pairwise

import pytest

from apportion.cluster import Cluster
from apportion.errors import InputError
from apportion.sim.network import Exchange, Layer, MemoizedNetwork, ModelProfile, Shape, get_network

CLUSTER = Cluster.of_racks(16)
MACHINE: Shape = ((8,),)
RACK: Shape = ((4, 4),)
RACKS: Shape = ((2, 2), (2, 2))
TABLE = {
    "VGG11": (0.01, 0.06, 0.07),
    "AlexNet": (0.02, 0.13, 1.00),
    "MobileNetV3": (0.42, 9.40, 195.92),
    "ResNet18": (0.07, 1.16, 27.49),
    "ResNet50": (0.12, 0.12, 0.38),
    "BERT-large": (0.08, 0.23, 7.15),
}


def table1(*, flat: bool | None = None) -> MemoizedNetwork:
    return get_network("table1", cluster=CLUSTER, flat_if_unbalanced=flat)


@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("model", TABLE)
def test_eight_gpus_have_the_overheads_of_the_table(model: str, flat: bool) -> None:
    network = table1(flat=flat)
    for shape, overhead in zip((MACHINE, RACK, RACKS), TABLE[model], strict=True):
        assert network.overhead(model, shape) == pytest.approx(overhead, rel=1e-12)
    assert network.overhead(model, ((4,), (4,))) == network.overhead(model, RACKS)


def test_latency_grows_with_the_steps_of_the_ring() -> None:
    network = table1()
    assert network.overhead("MobileNetV3", ((4, 4, 4, 4),)) == pytest.approx(9.40 * 3)
    assert network.overhead("MobileNetV3", ((8,) * 8,)) == pytest.approx(9.40 * 7)
    for model in ("MobileNetV3", "ResNet18", "BERT-large"):
        assert network.overhead(model, ((8,),) * 4) == pytest.approx(TABLE[model][2] * 3)


def test_an_unbalanced_gang_counts_every_gpu() -> None:
    # 16 GPUs over three racks: MobileNetV3 spends some 2900 times its compute.
    odd = ((6,), (5,), (5,))
    assert table1().overhead("MobileNetV3", odd) == pytest.approx(195.92 * 15)
    assert table1(flat=False).overhead("MobileNetV3", odd) == pytest.approx(195.92 * 2)


def test_machines_of_racks_that_divide_a_gang_do_not_matter() -> None:
    for shape in (((8,), (4, 4)), ((8,), (7, 1)), ((8,), (8,))):
        assert table1().overhead("MobileNetV3", shape) == pytest.approx(195.92)


@pytest.mark.parametrize("model", TABLE)
def test_more_units_never_cost_less(model: str) -> None:
    network = table1()
    for shapes in (
        [((gpus,),) for gpus in (1, 2, 4, 8)],
        [((4,) * machines,) for machines in range(2, 9)],
        [((2, 2),) * racks for racks in range(2, 17)],
    ):
        overheads = [network.overhead(model, shape) for shape in shapes]
        # A ring has an even number of links, so that one more machine may add two of them.
        assert all(more >= 0.98 * less >= 0 for less, more in pairwise(overheads))
        assert overheads[-1] == max(overheads)


def test_a_flat_gang_costs_at_least_what_a_balanced_one_does() -> None:
    for model in TABLE:
        for shape in (((4, 3),), ((5, 4, 3),), ((3,), (2,)), ((4, 4), (4,))):
            flat, not_flat = table1(), table1(flat=False)
            assert flat.overhead(model, shape) >= not_flat.overhead(model, shape)


def test_models_of_ones_own_follow_the_analytic_model() -> None:
    layer = Layer("all", 0.5e-3, 0.0, 0.5e-3, Exchange("all_reduce", 1e6))
    mine = {"mine": ModelProfile("mine", (layer,))}
    network = get_network("table1", cluster=CLUSTER, profiles=mine)
    # Two GPUs in two racks: twice 100 us of latency, 1 MB at two links of 400 GiB/s, all exposed.
    expected = (200e-6 + 1e6 / (800 * 2**30)) / 1e-3
    assert network.overhead("mine", ((1,), (1,))) == pytest.approx(expected)
    assert network.overhead("VGG11", RACK) == pytest.approx(0.06)


def test_a_model_without_profile_is_refused_once_it_communicates() -> None:
    assert table1().overhead("A3C (batch size 4)", ((1,),)) == 0
    with pytest.raises(InputError, match=r"'A3C \(batch size 4\)' has no communication profile"):
        table1().overhead("A3C (batch size 4)", ((2,),))
