from __future__ import annotations

from itertools import pairwise

import pytest

from apportion.cluster import Cluster
from apportion.errors import InputError
from apportion.sim.network import MemoizedNetwork, Shape, get_network

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


def test_a_model_without_profile_is_refused_once_it_communicates() -> None:
    assert table1().overhead("A3C (batch size 4)", ((1,),)) == 0
    with pytest.raises(InputError, match=r"'A3C \(batch size 4\)' has no communication profile"):
        table1().overhead("A3C (batch size 4)", ((2,),))
