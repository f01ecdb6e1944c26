from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from apportion.cluster import Cluster
from apportion.errors import InputError
from apportion.sim.network import (
    Dimension,
    Interconnect,
    calibrate,
    calibrate_groups,
    compute_scale_for,
    get_network,
    model_profiles,
)
from apportion.sim.network.models.table_i import TABLE1_COMPUTE_SCALE, scaled_profiles
from apportion.sim.network.registry import TABLE1_INTERCONNECT

if TYPE_CHECKING:
    from pathlib import Path

SIZES = [2.0**exponent for exponent in range(10, 30, 3)]
COLUMNS = ["peers", "size_bytes", "seconds"]


def measured(alpha_s: float, bandwidth: float, passes: int = 2) -> pd.DataFrame:
    """Times of a ring, step by step: so many messages of S / n bytes each."""
    rows = [
        (n, size, passes * (n - 1) * (alpha_s + size / n / bandwidth))
        for n, size in itertools.product((2, 4, 8), SIZES)
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


@pytest.mark.parametrize(("collective", "passes"), [("all_reduce", 2), ("all_gather", 1)])
def test_known_figures_are_recovered(collective: str, passes: int) -> None:
    fit = calibrate(measured(3e-6, 2e11, passes), collective=collective)
    assert fit.alpha_s == pytest.approx(3e-6, rel=1e-6)
    assert fit.bandwidth_bytes_per_s == pytest.approx(2e11, rel=1e-6)
    assert fit.median_relative_error < 1e-9
    assert fit.dimension("rack") == Dimension(
        "rack", "fully_connected", fit.bandwidth_bytes_per_s, fit.alpha_s
    )


def test_messages_between_two_are_fitted_alike() -> None:
    points = pd.DataFrame([(2, size, 5e-6 + size / 1e10) for size in SIZES], columns=COLUMNS)
    fit = calibrate(points, collective="send_recv")
    assert fit.alpha_s == pytest.approx(5e-6)
    assert fit.bandwidth_bytes_per_s == pytest.approx(1e10)


def test_figures_are_never_negative() -> None:
    # Times that shrink with the size: the best beta >= 0 is 0.
    points = pd.DataFrame([(2, 1.0, 2.0), (2, 1e3, 1.0)], columns=COLUMNS)
    fit = calibrate(points)
    assert fit.bandwidth_bytes_per_s == math.inf
    # min (2a/2 - 1)^2 + (2a - 1)^2: a = 0.6, which is 40 % short of one and 20 % above the other.
    assert fit.alpha_s == pytest.approx(0.6)
    assert fit.relative_residuals == pytest.approx([-0.4, 0.2])
    assert fit.median_relative_error == pytest.approx(0.3)


def test_groups_are_fitted_one_by_one() -> None:
    points = pd.concat(
        [
            measured(1e-6, 1e11).assign(model="VGG11", tier="machine"),
            measured(9e-6, 1e10).assign(model="VGG11", tier="rack"),
        ],
        ignore_index=True,
    )
    fits = calibrate_groups(points, ["model", "tier"])
    assert list(fits) == [("VGG11", "machine"), ("VGG11", "rack")]
    assert fits["VGG11", "rack"].alpha_s == pytest.approx(9e-6)
    with pytest.raises(InputError, match="no column 'system'"):
        calibrate_groups(points, ["system"])
    points.loc[3, "seconds"] = 0.0
    with pytest.raises(InputError, match=r"'tier': 'machine'.*point 3 has seconds 0"):
        calibrate_groups(points, ["model", "tier"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seconds": math.nan}, "point 0 has seconds nan"),
        ({"peers": 1}, "point 0 has peers 1"),
        ({"size_bytes": -5.0}, "point 0 has size_bytes -5"),
        ({"size_bytes": 7.0, "peers": 2}, "cannot tell alpha from beta"),
    ],
)
def test_points_that_say_nothing_are_refused(change: dict[str, float], message: str) -> None:
    points = measured(1e-6, 1e9).assign(**change)
    with pytest.raises(InputError, match=message):
        calibrate(points)


def test_missing_columns_and_points_are_named() -> None:
    points = measured(1e-6, 1e9)
    with pytest.raises(InputError, match="no column 'peers'"):
        calibrate(points.drop(columns="peers"))
    with pytest.raises(InputError, match="no points"):
        calibrate(points.head(0))
    with pytest.raises(InputError, match="Unknown collective 'sum'"):
        calibrate(points, collective="sum")


@pytest.mark.parametrize("model", ["MobileNetV3", "BERT-large"])
def test_the_compute_scale_of_the_authors_is_found_from_its_overhead(model: str) -> None:
    network = get_network("table1_model", cluster=Cluster.of_racks(1))
    overhead = network.overhead(model, ((8,),))
    profile = scaled_profiles()[model].scaled(1 / TABLE1_COMPUTE_SCALE[model])
    scale = compute_scale_for(profile, TABLE1_INTERCONNECT, ((8,),), overhead)
    assert scale == pytest.approx(TABLE1_COMPUTE_SCALE[model], rel=1e-6)


def test_no_compute_scale_can_make_up_for_a_network_that_is_not_used() -> None:
    link = Dimension("machine", "ring", 1e9)
    interconnect = Interconnect((link,), link, link)
    profile = model_profiles()["VGG11"]
    with pytest.raises(InputError, match="No compute scale"):
        compute_scale_for(profile, interconnect, ((1,),), 0.1)
    for overhead in (0.0, -1.0, math.nan):
        with pytest.raises(InputError, match="The overhead is"):
            compute_scale_for(profile, interconnect, ((8,),), overhead)


def vidur(public_data: Path, file: str, operation: str) -> pd.DataFrame:
    path = public_data / "vidur_network" / f"{file}.csv.gz"
    if not path.exists():
        pytest.skip(f"needs the public data {path}, which is not there")
    table = pd.read_csv(path)
    return pd.DataFrame(
        {
            "peers": table["num_workers"],
            "size_bytes": table["size"],
            "seconds": table[f"time_stats.{operation}.median"] * 1e-3,
            "nodes": table["num_workers"] // table["devices_per_node"],
        }
    )


def test_measured_all_reduces_within_a_node_follow_the_model(public_data: Path) -> None:
    points = vidur(public_data, "a100_dgx_all_reduce", "all_reduce")
    fits = calibrate_groups(points, ["nodes", "peers"])
    eight = fits[1, 8]
    # NCCL reports 174 GB/s of bus bandwidth for 64 MiB among these eight GPUs.
    assert eight.bandwidth_bytes_per_s == pytest.approx(174e9, rel=0.2)
    assert eight.median_relative_error < 0.15
    assert {peers for nodes, peers in fits if nodes == 1} == {2, 4, 8}
    for peers in (2, 4):
        assert fits[1, peers].median_relative_error < 0.15


def test_measured_all_reduces_over_two_nodes_are_slower(public_data: Path) -> None:
    points = vidur(public_data, "a100_dgx_all_reduce", "all_reduce")
    fits = calibrate_groups(points, ["nodes", "peers"])
    assert fits[2, 16].median_relative_error < 0.3
    assert fits[1, 8].bandwidth_bytes_per_s > 5 * fits[2, 16].bandwidth_bytes_per_s
    assert fits[2, 16].alpha_s > fits[1, 8].alpha_s


def test_measured_messages_between_two_follow_the_model(public_data: Path) -> None:
    points = vidur(public_data, "a100_dgx_send_recv", "send_recv")
    fits = calibrate_groups(points, ["nodes"], collective="send_recv")
    assert fits[1,].median_relative_error < 0.15
    assert fits[2,].median_relative_error < 0.05
    assert fits[1,].bandwidth_bytes_per_s > 5 * fits[2,].bandwidth_bytes_per_s


@pytest.mark.parametrize(("by", "said"), [([], "by is empty"), ("model", "by is 'model'")])
def test_groups_need_columns(by: Any, said: str) -> None:
    points = pd.DataFrame({"model": ["a"], "peers": [2], "size_bytes": [1.0], "seconds": [1.0]})
    with pytest.raises(InputError, match=said):
        calibrate_groups(points, by)
