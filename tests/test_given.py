from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import apportion as ap

SPEED = pd.DataFrame({"v100": [40.0, 12.0, 8.0], "k80": [10.0, 1.0, 8.0]}, index=["x", "y", "z"])
GPUS = {"v100": 1, "k80": 1}
WEIGHTS = {"weight": [1.0, 2.0, 3.0], "scale_factor": 1}
TABLE = pd.DataFrame(WEIGHTS, index=SPEED.index)
EXPECTED = ap.solve("max_min_fairness", SPEED, workers=GPUS, jobs=TABLE)


def test_a_tensor_that_carries_its_workers_is_all_that_solve_needs() -> None:
    tensor = ap.ThroughputTensor.of(SPEED, workers=GPUS, jobs=TABLE)
    found = ap.solve("max_min_fairness", tensor)
    pd.testing.assert_frame_equal(found.X, EXPECTED.X)
    made = ap.ThroughputTensor(tensor.values, ap.Cluster(GPUS), TABLE)
    pd.testing.assert_frame_equal(ap.solve("max_min_fairness", made).X, EXPECTED.X)
    assert "on v100=1,k80=1" in repr(tensor)


def test_arguments_take_the_place_of_what_a_tensor_carries() -> None:
    tensor = ap.ThroughputTensor.of(SPEED, workers="v100=9,k80=9", jobs={"weight": 5.0})
    found = ap.solve("max_min_fairness", tensor, workers=GPUS, jobs=TABLE)
    pd.testing.assert_frame_equal(found.X, EXPECTED.X)
    assert str(tensor.workers) == "v100=9,k80=9"
    assert ap.ThroughputTensor.of(tensor) is tensor


@pytest.mark.parametrize("workers", [[1, 1], (1, 1), np.array([1, 1])])
@pytest.mark.parametrize("form", [np.asarray, lambda frame: frame.to_numpy().tolist()])
def test_arrays_have_numbers_for_labels(form: Any, workers: Any) -> None:
    found = ap.solve("max_min_fairness", form(SPEED), workers=workers, jobs=WEIGHTS)
    # Types are solved for in the order of their names, and 0 comes before 1, v100 after k80.
    np.testing.assert_allclose(found.X.to_numpy(), EXPECTED.X.to_numpy(), rtol=0.0, atol=1e-14)
    assert found.X.index.tolist() == found.throughput.index.tolist() == [0, 1, 2]
    assert found.X.columns.tolist() == found.prices.index.tolist() == [0, 1]


def test_arrays_take_the_names_of_the_workers() -> None:
    found = ap.solve("max_min_fairness", SPEED.to_numpy(), workers=GPUS, jobs=WEIGHTS)
    assert found.X.columns.tolist() == ["v100", "k80"]
    np.testing.assert_array_equal(found.X.to_numpy(), EXPECTED.X.to_numpy())


def test_types_with_numbers_for_names() -> None:
    frame = SPEED.set_axis([0, 1], axis=1)
    found = ap.solve("max_min_fairness", frame, workers={1: 1, 0: 1}, jobs=TABLE)
    np.testing.assert_allclose(found.X.to_numpy(), EXPECTED.X.to_numpy(), atol=1e-9)
    assert found.prices[0] == pytest.approx(EXPECTED.prices["v100"])
    with pytest.raises(ap.InputError, match="Duplicate option '0'"):
        ap.ThroughputTensor.of(SPEED.set_axis([0, "0"], axis=1))


@pytest.mark.parametrize(
    "jobs",
    [
        WEIGHTS,
        {"weight": np.array([1, 2, 3])},
        {"weight": pd.Series({"z": 3.0, "x": 1.0, "y": 2.0})},
        {"weight": {"z": 3, "x": 1, "y": 2}},
    ],
)
def test_jobs_as_columns(jobs: Any) -> None:
    found = ap.solve("max_min_fairness", SPEED, workers=GPUS, jobs=jobs)
    pd.testing.assert_frame_equal(found.X, EXPECTED.X)


@pytest.mark.parametrize(
    "given", [SPEED, ap.ThroughputTensor.of(SPEED), SPEED.to_dict("index"), SPEED.to_numpy()]
)
def test_without_workers_both_ways_are_shown(given: Any) -> None:
    with pytest.raises(ap.InputError) as refused:
        ap.solve("max_min_fairness", given)
    text = str(refused.value)
    workers = "[8, 8]" if isinstance(given, np.ndarray) else "{'v100': 8, 'k80': 8}"
    assert f"solve(policy, throughputs, workers={workers})" in text
    assert f"solve(policy, ThroughputTensor.of(throughputs, workers={workers}))" in text


@pytest.mark.parametrize(
    ("throughputs", "options", "message"),
    [
        (SPEED, {"workers": [1, 1]}, r"workers=\{'v100': 1, 'k80': 1\}"),
        (SPEED.to_numpy(), {"workers": [1, 1, 1]}, "2 columns, the workers have 3 types"),
        (np.ones(3), {"workers": [1]}, "two dimensions"),
        ([[1, 2], [3]], {"workers": [1, 1]}, "no array of jobs by types"),
        (None, {}, "not NoneType"),
        ("v100", {}, "not str"),
        ({"x": 4.0}, {}, "'x' is 4.0; it must be a mapping by type"),
        ({"x": {"v100": 4.0, "k80": None}}, {}, "job 'x' on 'k80' is None"),
        (SPEED, {"jobs": {"weight": [1.0]}}, "1 values for 3 jobs"),
        (SPEED, {"jobs": {"wieght": 1.0}}, "Did you mean 'weight'"),
        (SPEED, {"jobs": {"weight": {"x": 1.0}}}, r"job \(without weight\) 'y'"),
        (SPEED, {"jobs": {"weight": dict.fromkeys("xyzu", 1)}}, "job in the column 'weight' 'u'"),
        (SPEED, {"jobs": 3}, "not int"),
        (SPEED, {"fallback": None}, "Unknown fallback"),
    ],
)
def test_what_cannot_be_used_is_named(throughputs: Any, options: Any, message: str) -> None:
    with pytest.raises(ap.InputError, match=message):
        ap.solve("max_min_fairness", throughputs, **({"workers": GPUS} | options))


def test_a_session_opens_with_a_tensor() -> None:
    tensor = ap.ThroughputTensor.of(SPEED, workers=GPUS, jobs=TABLE)
    with ap.session("max_min_fairness", tensor) as opened:
        np.testing.assert_allclose(opened.solve().X, EXPECTED.X, atol=1e-7)
        found: Any = opened.solve()
        assert "<table" in found._repr_html_()
        assert ap.Allocation.from_json(found.to_json()).X.equals(found.X)
        assert found.to_csv().startswith("row,option,share\n")
    with ap.session("max_min_fairness", GPUS) as opened:
        opened.add(SPEED, WEIGHTS)
        np.testing.assert_allclose(opened.solve().X, EXPECTED.X, atol=1e-7)
    other = ap.ThroughputTensor.of(SPEED, workers="v100=2,k80=1")
    with (
        ap.session("max_min_fairness", GPUS) as opened,
        pytest.raises(ap.InputError, match="for the workers v100=2,k80=1"),
    ):
        opened.add(other)


@pytest.mark.parametrize("name", ["dally", "tiresias", "themis"])
def test_a_scheduler_is_no_policy(name: str) -> None:
    with pytest.raises(ap.InputError, match=f"'{name}' is a scheduler, not a policy.*simulate"):
        ap.get_policy(name)
    with pytest.raises(ap.InputError, match="is a scheduler"):
        ap.solve(name, SPEED, workers=GPUS)


@pytest.mark.parametrize("name", ["fifo", "max_min_fairness_agnostic", "makespan_space_sharing"])
def test_a_policy_is_no_scheduler(name: str) -> None:
    with pytest.raises(ap.InputError, match=f"'{name}' is a policy, not a scheduler.*solve"):
        ap.get_scheduler(name)


def test_the_names_are_those_of_the_registries() -> None:
    from apportion.names import POLICY_NAMES
    from apportion.policies import BUILT_IN, SPECIALISED, WHOLE

    every = [*BUILT_IN, *SPECIALISED, *(policy for kind in WHOLE.values() for policy in kind)]
    assert tuple(policy.name for policy in every) == POLICY_NAMES


@pytest.mark.parametrize("option", ["heterogeneity_aware", "space_sharing", "lexicographic"])
@pytest.mark.parametrize("value", ["no", 1, None])
def test_switches_are_true_or_false(option: str, value: Any) -> None:
    with pytest.raises(ap.InputError, match=f"{option} is {value!r}; it must be True or False"):
        ap.get_policy("max_min_fairness", **{option: value})
