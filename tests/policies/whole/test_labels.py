"""Whole decisions under labels: options by name, pins, current options, choice, soft resources."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from tests.policies.whole.oracle import Knapsack, Rotations

import apportion as ap
from apportion.policies import Resource, solve

OPTIONS = pd.MultiIndex.from_tuples(
    [(1, "v100"), (2, "v100"), (1, "k80"), (4, "k80")], names=["gpus", "accelerator"]
)
SPEED = pd.DataFrame(
    [[3.0, 5.0, 1.0, 4.0], [2.0, 3.5, 1.5, 2.0], [2.0, 3.5, 1.5, 2.0]],
    index=["ana", "ben", "cid"],
    columns=OPTIONS,
)


def test_options_hold_the_gpus_of_the_level_of_that_name() -> None:
    found = solve(Knapsack(), SPEED, workers="v100=3,k80=1")
    # By hand: ana on 2 v100s and one other on 1, the third on a k80: 5 + 2 + 1.5.
    assert found.objective == pytest.approx(8.5)
    assert found.choice["ana"] == (2, "v100")
    assert sorted(found.choice[["ben", "cid"]]) == [(1, "k80"), (1, "v100")]
    assert list(found.to_frame().columns) == ["row", "gpus", "accelerator", "share"]
    assert len(found.to_frame()) == 3
    assert "of the relaxation" in repr(found)
    assert "2, v100" in repr(found)
    again = ap.Allocation.from_json(found.to_json())
    pd.testing.assert_series_equal(again.choice, found.choice)
    pd.testing.assert_frame_equal(again.X, found.X)
    assert found.to_dict()["choice"][0] == [2, "v100"]


def test_names_of_levels_say_what_numbers_mean() -> None:
    tiers = SPEED[[(1, "v100"), (2, "v100")]].set_axis(
        pd.MultiIndex.from_tuples([("v100", 1), ("v100", 2)], names=["accelerator", "tier"]), axis=1
    )
    assert ap.ThroughputTensor.of(tiers).gpus_of_option is None
    three = tiers.set_axis(
        pd.MultiIndex.from_tuples(
            [("v100", "machine", 1), ("v100", "rack", 2)], names=["accelerator", "tier", "gpus"]
        ),
        axis=1,
    )
    gpus = ap.ThroughputTensor.of(three).gpus_of_option
    assert gpus is not None
    assert gpus.tolist() == [1, 2]
    wrong = three.rename_axis(columns=["accelerator", "tear", "gpus"])
    with pytest.raises(ap.InputError, match="levels with names out of accelerator, tier, gpus"):
        ap.ThroughputTensor.of(wrong)
    words = [("v100", "machine", "1"), ("v100", "rack", "x")]
    few = three.set_axis(pd.MultiIndex.from_tuples(words, names=three.columns.names), axis=1)
    with pytest.raises(ap.InputError, match="whole numbers >= 1"):
        _ = ap.ThroughputTensor.of(few).gpus_of_option


def test_of_equal_decisions_the_one_without_changes_is_taken() -> None:
    for workers in ("v100=3,k80=1", "v100=3,k80=0"):
        for now in ("ben", "cid"):
            jobs = {"current_option": {"ana": None, "ben": None, "cid": None} | {now: (1, "v100")}}
            found = solve(Knapsack(), SPEED, workers=workers, jobs=jobs)
            assert found.choice[now] == (1, "v100"), (workers, now, found.choice.to_dict())
            assert found.objective == pytest.approx(8.5 if "k80=1" in workers else 7.0)


def test_pins_hold_and_are_named_where_they_cannot() -> None:
    now = {"ana": (1, "k80"), "ben": (2, "v100"), "cid": None}
    jobs = {"current_option": now, "pinned": {"ana": True, "ben": False, "cid": False}}
    found = solve(Knapsack(), SPEED, workers="v100=3,k80=1", jobs=jobs)
    assert found.choice["ana"] == (1, "k80")
    assert found.objective == pytest.approx(1.0 + 3.5 + 2.0)
    with pytest.raises(ap.InputError, match="'ana' is pinned, which is for policies that decide"):
        solve("max_min_fairness", SPEED, workers="v100=3,k80=1", jobs=jobs)
    every = jobs | {"pinned": [True, True, False]}
    ones = now | {"ben": (1, "v100"), "cid": (1, "v100")}
    pinned = {"current_option": ones, "pinned": True}
    with pytest.raises(ap.InputError, match=r"hold 2 of 'v100', .* are 1: Job 'ben', Job 'cid'\."):
        solve(Knapsack(), SPEED, workers="v100=1,k80=1", jobs=pinned)
    with pytest.raises(ap.InputError, match="'ben' is pinned to an option under which it cannot"):
        solve(Knapsack(), SPEED, workers="v100=1,k80=1", jobs=every)
    with pytest.raises(ap.InputError, match="'cid' is pinned and has no current_option"):
        solve(Knapsack(), SPEED, workers="v100=3,k80=1", jobs=jobs | {"pinned": True})
    with pytest.raises(ap.InputError, match=r"current_option = \(3, 'v100'\)"):
        solve(Knapsack(), SPEED, workers="v100=3,k80=1", jobs={"current_option": [(3, "v100")] * 3})
    with pytest.raises(ap.InputError, match="pinned = 'yes'; it must be True or False"):
        solve(Knapsack(), SPEED, workers="v100=3,k80=1", jobs={"pinned": "yes"})


def test_soft_resources_are_sparse_and_found_by_name() -> None:
    table = pd.DataFrame(1.0, index=["a", "b"], columns=["r0", "r1"])
    demand = sparse.csr_array([[2.0, 0.0], [2.0, 0.0]])
    link = Resource("link 1", None, demand)
    names = pd.MultiIndex.from_product([["v"], ["r0", "r1"]], names=["accelerator", "tier"])
    speed = table.set_axis(names, axis=1)
    found = solve(Rotations(), speed, workers="v=2", resources=[link], gang_packing=False)
    assert found.objective == 0.0
    assert sorted(found.choice) == [("v", "r1"), ("v", "r1")]
    assert found.prices["link 1"] == 0.0
    with pytest.raises(ap.InputError, match="rows and options of the throughput tensor"):
        solve(Rotations(), speed, workers="v=2", resources=[Resource("l", None, demand[:1])])
    with pytest.raises(ap.InputError, match="no finite number >= 0"):
        Resource("l", None, sparse.csr_array([[-1.0]]))
    with pytest.raises(ap.InputError, match="DataFrame or a sparse array"):
        Resource("l", None, [[1.0]])  # type: ignore[arg-type]
    soft = [Resource("link 1", None, demand[:, :1])]
    shares = solve("max_min_fairness", table[["r0"]], workers="r0=1", resources=soft)
    assert np.allclose(shares.X, 0.5)


def test_normalisers_count_the_gpus_of_the_option_wherever_its_level_stands() -> None:
    turned = SPEED.set_axis(pd.MultiIndex.from_tuples([(b, a) for a, b in OPTIONS]), axis=1)
    jobs = {"steps_remaining": 1e4, "scale_factor": 1}
    for policy in ("finish_time_fairness", "max_min_fairness", "isolated"):
        named = solve(policy, SPEED, workers="v100=3,k80=4", jobs=jobs)
        usual = solve(policy, turned, workers="v100=3,k80=4", jobs=jobs)
        np.testing.assert_allclose(named.X.to_numpy(), usual.X.to_numpy(), atol=1e-7)
    fair = solve("isolated", SPEED, workers="v100=3,k80=4", jobs=jobs).X
    held = fair.mul([1, 2, 1, 4], axis=1).T.groupby(level="accelerator").sum()
    assert (fair.sum(axis=1) <= 1 + 1e-9).all()
    assert held.loc["v100"].to_numpy().max() <= 1 + 1e-9  # a third of each type
    assert held.loc["k80"].to_numpy().max() <= 4 / 3 + 1e-9


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_shares_of_time_are_the_same_beside_a_soft_resource() -> None:
    rng = np.random.default_rng(0)
    speed = pd.DataFrame(rng.uniform(1, 9, (12, 3)), columns=list("abc"))
    given: dict[str, Any] = {"workers": "a=2,b=2,c=2", "jobs": {"steps_remaining": 1e4}}
    for policy in ("max_min_fairness", "makespan"):
        without = solve(policy, speed, **given)
        beside = solve(policy, speed, resources=[Resource("link", None, speed)], **given)
        pd.testing.assert_frame_equal(without.X, beside.X, rtol=0, atol=1e-12)
        assert beside.prices.drop("link").tolist() == pytest.approx(without.prices, rel=1e-12)
        assert beside.prices["link"] == 0.0
        assert beside.gap == pytest.approx(without.gap, abs=1e-12)


def test_current_options_as_a_list_of_labels_and_none() -> None:
    """A list of tuples and None is no array to numpy; choices are plain labels that go back in."""
    listed = {"current_option": [(1, "v100"), None]}
    jobs = pd.DataFrame(
        {"current_option": pd.Series([(1, "v100"), None], SPEED.index[:2], dtype=object)}
    )
    speed = SPEED.iloc[:2]
    by_list, by_table = (
        solve(Knapsack(), speed, workers="v100=3,k80=1", jobs=each) for each in (listed, jobs)
    )
    assert by_list.choice.tolist() == by_table.choice.tolist()
    assert all(type(n) is int for n, _ in by_list.choice)
    kept = solve(
        Knapsack(),
        speed,
        workers="v100=3,k80=1",
        jobs={"current_option": by_list.choice.tolist(), "pinned": True},
    )
    assert kept.choice.tolist() == by_list.choice.tolist()
