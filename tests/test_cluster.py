from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.cluster import ACCELERATORS, Cluster
from apportion.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable


def test_the_order_of_types_is_kept() -> None:
    cluster = Cluster({"h100": 2, "a100": 6, "k80": 0})
    assert cluster.accelerators == ("h100", "a100", "k80")
    assert cluster.counts.tolist() == [2, 6, 0]
    assert cluster.total_gpus == 8


def test_whole_numbers_of_any_kind_are_counts() -> None:
    assert Cluster({"a": np.int32(3), "b": 2.0}).gpus == {"a": 3, "b": 2}  # type: ignore[dict-item]


REFUSED: list[tuple[Callable[[Any], object], list[Any], str]] = [
    (
        lambda count: Cluster({"a100": count}),
        [-1, 1.5, "4", None, True, float("nan"), float("inf")],
        "GPUs of 'a100' is .* whole number >= 0",
    ),
    (Cluster, [{}, None, [("a100", 2)]], "at least one accelerator type"),
    (Cluster, [{"a100": 0, "h100": 0}], "no GPUs"),
    (lambda name: Cluster.parse("a100=4", **{name: 0}), ["gpus_per_machine"], "machine is 0; it"),
    (lambda name: Cluster.parse("a100=4", **{name: 0}), ["machines_per_rack"], "rack is 0; it"),
    (
        lambda price: Cluster({"a100": 1}, prices_per_gpu_hour={"a100": price}),
        [-1.0, float("nan"), float("inf"), "4", None],
        "price of 'a100'",
    ),
    (
        lambda name: Cluster({"a100": 1}, prices_per_gpu_hour={name: 1.0}),
        ["a100x"],
        "Did you mean 'a100'",
    ),
    (
        lambda text: Cluster.parse(f"k80=2, {text}"),
        ["a100", "a100=", "=4", "a100=four", "a100=-2", "a100=1.5"],
        "Cannot read",
    ),
    (Cluster.parse, ["k80=2,k80=3"], "names 'k80' twice"),
    (Cluster.of, [8], "got int"),
]


@pytest.mark.parametrize(("make", "values", "message"), REFUSED)
def test_what_is_no_cluster_is_refused(make: Any, values: list[Any], message: str) -> None:
    for each in values:
        with pytest.raises(InputError, match=message):
            make(each)


def test_the_last_machine_holds_the_remainder() -> None:
    cluster = Cluster({"a100": 10, "h100": 4, "k80": 0}, gpus_per_machine=4)
    assert cluster.machines("a100").tolist() == [4, 4, 2]
    assert cluster.machines("h100").tolist() == [4]
    assert cluster.machines("k80").tolist() == []
    with pytest.raises(InputError, match=r"Unknown accelerator 'a10'\. Did you mean 'a100'"):
        cluster.machines("a10")


def test_prices_default_to_list_prices_and_are_unknown_otherwise() -> None:
    cluster = Cluster({"v100": 1, "mine": 1, "k80": 1}, prices_per_gpu_hour={"k80": 0.1})
    expected = [ACCELERATORS["v100"].usd_per_hour, np.nan, 0.1]
    np.testing.assert_array_equal(cluster.prices, expected)


@settings(derandomize=True, deadline=None, max_examples=50)
@given(
    st.dictionaries(
        st.text("abcxyz019-_", min_size=1), st.integers(0, 10**6), min_size=1, max_size=5
    ).filter(lambda gpus: sum(gpus.values()) > 0)
)
def test_text_and_back(gpus: dict[str, int]) -> None:
    cluster = Cluster(gpus)
    assert Cluster.of(str(cluster)) == cluster
    assert Cluster.of(gpus) == cluster
    assert Cluster.of(cluster) is cluster


def test_pickles() -> None:
    cluster = Cluster({"a100": 3}, machines_per_rack=2)
    assert repr(pickle.loads(pickle.dumps(cluster))) == repr(cluster)


def test_racks_hold_whole_machines() -> None:
    cluster = Cluster.of_racks(2, machines_per_rack=3, gpus_per_machine=4)
    assert cluster.gpus == {"gpu": 24}
    assert [rack.tolist() for rack in cluster.racks("gpu")] == [[4, 4, 4], [4, 4, 4]]
    assert [rack.tolist() for rack in Cluster({"v100": 8}).racks("v100")] == [[4, 4]]


@pytest.mark.parametrize(("gpus", "multiple"), [(26, 24), (12, 24), (50, 24)])
def test_racks_that_are_not_whole_are_refused(gpus: int, multiple: int) -> None:
    cluster = Cluster({"v100": gpus}, gpus_per_machine=4, machines_per_rack=6)
    with pytest.raises(InputError, match=f"multiple of {multiple}"):
        cluster.racks("v100")


def test_a_type_without_gpus_has_no_racks() -> None:
    assert Cluster({"v100": 0, "k80": 8}).racks("v100") == []


def test_racks_of_several_types() -> None:
    shape: Any = {"machines_per_rack": 2, "gpus_per_machine": 4}
    cluster = Cluster.of_racks({"v100": 2, "k80": 1}, **shape)
    assert cluster == Cluster({"v100": 16, "k80": 8}, **shape)
    assert cluster == Cluster.of_racks("v100=2, k80=1", **shape)
    assert [rack.tolist() for rack in cluster.racks("k80")] == [[4, 4]]


@pytest.mark.parametrize(
    ("racks", "options", "message"),
    [
        ({"v100": 0}, {}, "racks of 'v100' is 0"),
        ({}, {}, "at least one accelerator type"),
        ("v100=2,v100=1", {}, "The racks 'v100=2,v100=1' names 'v100' twice"),
        ("v100=x", {}, "Cannot read 'v100=x' in the racks"),
        ({"v100": 1}, {"accelerator": "k80"}, "leave out accelerator='k80'"),
    ],
)
def test_racks_of_types_that_cannot_be(racks: Any, options: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Cluster.of_racks(racks, **options)
