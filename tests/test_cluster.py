from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.cluster import ACCELERATORS, Cluster
from apportion.errors import InputError


def test_the_order_of_types_is_kept() -> None:
    cluster = Cluster({"h100": 2, "a100": 6, "k80": 0})
    assert cluster.accelerators == ("h100", "a100", "k80")
    assert cluster.counts.tolist() == [2, 6, 0]
    assert cluster.total_gpus == 8


def test_whole_numbers_of_any_kind_are_counts() -> None:
    assert Cluster({"a": np.int32(3), "b": 2.0}).gpus == {"a": 3, "b": 2}  # type: ignore[dict-item]


@pytest.mark.parametrize("count", [-1, 1.5, "4", None, True, float("nan"), float("inf")])
def test_other_counts_are_refused(count: Any) -> None:
    with pytest.raises(InputError, match=r"GPUs of 'a100' is .* whole number >= 0"):
        Cluster({"a100": count})


@pytest.mark.parametrize("gpus", [{}, None, [("a100", 2)]])
def test_a_cluster_needs_types(gpus: Any) -> None:
    with pytest.raises(InputError, match="at least one accelerator type"):
        Cluster(gpus)


def test_a_cluster_needs_a_gpu() -> None:
    with pytest.raises(InputError, match="no GPUs"):
        Cluster({"a100": 0, "h100": 0})


@pytest.mark.parametrize("option", ["gpus_per_machine", "machines_per_rack"])
def test_shapes_are_whole_numbers(option: str) -> None:
    with pytest.raises(InputError, match=f"{option} is 0; it must be a whole number >= 1"):
        Cluster.parse("a100=4", **{option: 0})


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


@pytest.mark.parametrize("price", [-1.0, float("nan"), float("inf"), "4", None])
def test_prices_are_finite_numbers(price: Any) -> None:
    with pytest.raises(InputError, match="price of 'a100'"):
        Cluster({"a100": 1}, prices_per_gpu_hour={"a100": price})


def test_prices_of_types_that_are_not_there_are_refused() -> None:
    with pytest.raises(InputError, match="Did you mean 'a100'"):
        Cluster({"a100": 1}, prices_per_gpu_hour={"a100x": 1.0})


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


@pytest.mark.parametrize("text", ["a100", "a100=", "=4", "a100=four", "a100=-2", "a100=1.5"])
def test_text_that_cannot_be_read_is_shown(text: str) -> None:
    with pytest.raises(InputError, match="Cannot read"):
        Cluster.parse(f"k80=2, {text}")


def test_a_type_named_twice_is_refused() -> None:
    with pytest.raises(InputError, match="names 'k80' twice"):
        Cluster.parse("k80=2,k80=3")


def test_other_values_are_no_cluster() -> None:
    with pytest.raises(InputError, match="got int"):
        Cluster.of(8)  # type: ignore[arg-type]


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
