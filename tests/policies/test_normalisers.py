from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog
from tests.seeds import each_seed, sampled

import apportion as ap
from apportion.policies import BUILT_IN, SPECIALISED, Instance
from apportion.policies.normalisers import slice_throughput

NAMES = [policy.name for policy in (*BUILT_IN, *SPECIALISED)]


def most_in_a_slice(speed: Any, gpus: Any, slice_gpus: Any, kind: Any) -> float:
    """Most steps/s of one job in a slice, by a linear program over its options."""
    held = np.array([(kind == j) * gpus for j in range(len(slice_gpus))])
    runs = [(0, None if s > 0 else 0) for s in speed]
    limits = np.vstack([held, np.ones(len(speed))])
    found = linprog(-speed, limits, np.append(slice_gpus, 1.0), bounds=runs)
    return -float(found.fun or 0.0)


@pytest.mark.parametrize("seed", each_seed(10, 150))
def test_the_most_of_a_slice_is_that_of_a_linear_program(seed: int) -> None:
    rng = np.random.default_rng(seed)
    options = int(rng.integers(1, 9))
    kind = rng.integers(0, 3, options)
    gpus = rng.choice([1.0, 2.0, 4.0, 8.0], (5, options))
    speed = rng.uniform(0.1, 10, (5, options)) * gpus ** rng.uniform(0, 1.2)
    speed[rng.random(speed.shape) < 0.2] = 0.0
    slice_gpus = rng.choice([0.0, 0.2, 1.0, 1.5, 9.0], 3)
    found = slice_throughput(speed, gpus, slice_gpus[kind], kind)
    wanted = [most_in_a_slice(speed[k], gpus[k], slice_gpus, kind) for k in range(5)]
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("seed", each_seed(10, 50))
def test_jobs_that_hold_gpus_only_are_those_of_options_of_as_many(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs, types = int(rng.integers(1, 9)), int(rng.integers(1, 5))
    speed, gpus = rng.uniform(0, 9, (jobs, types)), rng.choice([1.0, 2.0, 4.0], jobs)
    capacity, columns, kind = rng.uniform(1, 9, types), {"scale_factor": gpus}, np.arange(types)
    short = Instance.of_jobs(speed, gpus, capacity)
    long = Instance.of_options(
        speed, gpus[:, None], capacity, option_accelerator=kind, columns=columns
    )
    some = rng.permutation(jobs)[: int(rng.integers(1, jobs + 1))]
    for few, each in ((short, long), *[(i.subset(some, i.count[some]) for i in (short, long))]):
        assert few.own_usage is None
        assert each.own_usage is not None
        assert (few.rows, few.solo) == (each.rows, each.solo)
        assert (few.usage.toarray() == each.usage.toarray()).all()
        assert (few.gpus == each.gpus).all()
        assert (few.row_count == each.row_count).all()


def elastic(seed: int) -> tuple[pd.DataFrame, dict[str, int], pd.DataFrame]:
    """Jobs with options of 1, 2 and 4 GPUs of two types, and one that always holds two."""
    rng = np.random.default_rng(seed)
    options = pd.MultiIndex.from_product([["a100", "t4"], [1, 2, 4]])
    one = rng.uniform(1, 9, (5, 2)) * [3, 1]
    power = rng.uniform(0.5, 1.0, (5, 1))
    speed = np.repeat(one, 3, axis=1) * np.tile([1.0, 2.0, 4.0], 2) ** power
    speed[4, [0, 2, 3, 5]] = 0.0
    T = pd.DataFrame(speed, index=list("abcde"), columns=options)
    jobs = pd.DataFrame({"steps_remaining": rng.uniform(1e3, 1e5, 5)}, index=T.index)
    return T, {"a100": int(rng.integers(4, 9)), "t4": int(rng.integers(4, 9))}, jobs


@pytest.mark.parametrize("seed", each_seed(4, 12))
def test_slices_hold_the_gpus_of_the_options(seed: int) -> None:
    T, workers, jobs = elastic(seed)
    share = np.array(list(workers.values())) / 5
    kind, gpus = np.repeat([0, 1], 3), np.tile([1.0, 2.0, 4.0], 2)
    wanted = [most_in_a_slice(T.loc[job].to_numpy(), gpus, share, kind) for job in "abcd"]
    both = share / 2  # e holds two GPUs of either type, for all its time at most
    wanted.append(float(T.loc["e"].iloc[[1, 4]] @ both / max(both.sum(), 1.0)))
    isolated = ap.solve("isolated", T, workers=workers)
    np.testing.assert_allclose(isolated.throughput, wanted, rtol=1e-7)
    held = (isolated.X * gpus).T.groupby(level=0).sum().T
    assert (held <= share + 1e-9).to_numpy().all()
    fair = ap.solve("finish_time_fairness", T, workers=workers, jobs=jobs)
    assert fair.objective == pytest.approx((wanted / fair.throughput).max(), rel=1e-6)
    assert fair.objective <= 1 + 1e-9


def test_the_most_of_a_slice_by_hand() -> None:
    # 4/3 GPUs of each type: two thirds of the time on two a100, one third on four t4.
    options = pd.MultiIndex.from_product([["a100", "t4"], [1, 2, 4]])
    row = [12.0, 22.0, 40.0, 2.0, 4.0, 8.0]
    T = pd.DataFrame([row] * 3, index=list("abc"), columns=options)
    isolated = ap.solve("isolated", T, workers="a100=4,t4=4")
    np.testing.assert_allclose(isolated.throughput, (2 * 22 + 8) / 3)


@pytest.mark.thorough
def test_options_of_one_size_are_like_types() -> None:
    rng = np.random.default_rng(0)
    T = pd.DataFrame(rng.uniform(1, 9, (4, 2)), index=list("abcd"), columns=["a100", "t4"])
    sized = T.set_axis(pd.MultiIndex.from_tuples([("a100", 2), ("t4", 2)]), axis=1)
    jobs = pd.DataFrame(
        {"steps_remaining": 1e4, "scale_factor": 2, "entity": "x", "deadline_s": np.nan},
        index=T.index,
    )
    workers = ap.Cluster({"a100": 3, "t4": 2}, prices_per_gpu_hour={"a100": 3, "t4": 1})
    for name in NAMES:
        if name in {"allox", "gandiva_packing"}:
            continue
        plain = ap.solve(name, T, workers=workers, jobs=jobs)
        other = ap.solve(name, sized, workers=workers, jobs=jobs)
        np.testing.assert_allclose(plain.X.to_numpy(), other.X.to_numpy(), atol=1e-7)


def test_proportional_shares_fit_with_options_of_several_sizes() -> None:
    T, workers, _ = elastic(3)
    X = ap.solve("proportional", T, workers=workers).X
    held = (X * np.tile([1.0, 2.0, 4.0], 2)).T.groupby(level=0).sum().T
    assert (held.sum() <= pd.Series(workers) + 1e-9).all()
    time = X.sum(axis=1)  # e runs on two of the types as well, each in its fastest option
    np.testing.assert_allclose(time, time.iloc[0])


def test_agnostic_policies_still_see_the_number_of_gpus() -> None:
    T, workers, _ = elastic(4)
    aware = ap.solve("max_total_throughput", T, workers=workers).throughput.sum()
    blind = ap.solve("max_total_throughput_agnostic", T, workers=workers)
    assert blind.X.to_numpy()[:, [1, 2, 4, 5]].sum() > 0.1  # more than one GPU can pay
    assert blind.throughput.sum() <= aware + 1e-9


def test_allox_takes_single_gpus_only() -> None:
    T, workers, jobs = elastic(5)
    with pytest.raises(ap.InputError, match="AlloX places single-GPU jobs"):
        ap.solve("allox", T, workers=workers, jobs=jobs)


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("order", ["vkz", "zvk", "vzk"])
def test_types_on_which_nobody_can_run_take_their_part_of_the_time(
    order: str, *, named: bool
) -> None:
    """Whether the throughputs name them or not, and wherever they stand."""
    T = pd.DataFrame({"z": [0.0], "v": [1.0], "k": [1.0]}, index=["a"])
    jobs = pd.DataFrame({"steps_remaining": [100.0]}, index=["a"])
    workers = {name: {"v": 1, "k": 1, "z": 8}[name] for name in order}
    table = T if named else T[["v", "k"]]
    # A tenth of all GPUs is of each type that the job runs on: 1/10 of its time there.
    isolated = ap.solve("isolated", table, workers=workers)
    assert isolated.throughput.loc["a"] == pytest.approx(0.2)
    fair = ap.solve("finish_time_fairness", table, workers=workers, jobs=jobs)
    assert fair.objective == pytest.approx(0.2)


def test_an_instance_names_its_types() -> None:
    instance = Instance.of_jobs([[1.0, 2.0]], [1.0], [1.0, 3.0])
    assert instance.accelerators == 2
    assert instance.equal_share_throughput.tolist() == [7 / 4]


ALONE_ONLY = {"isolated", "proportional", "strategy_proof", "allox"}


def combinations(order: str) -> ap.ThroughputTensor:
    rows = {"ab": (("a", "b"), [[1.0, 2.0], [2.0, 3.0]]), "c": (("c",), [[1.0, 3.0]])}
    rows |= {"a": (("a",), [[2.0, 3.0]]), "b": (("b",), [[4.0, 6.0]])}
    taken = dict(rows[name] for name in order.split())
    return ap.ThroughputTensor.of_combinations(taken, ["v", "k"])


def facts() -> tuple[pd.DataFrame, ap.Cluster]:
    table = pd.DataFrame(
        {"steps_remaining": [100.0, 200, 300], "deadline_s": [1e4, np.nan, 1e5], "entity": "x"},
        index=list("abc"),
    )
    return table, ap.Cluster({"v": 1, "k": 1}, prices_per_gpu_hour={"v": 2, "k": 1})


@pytest.mark.parametrize("suffix", ["", "_agnostic"])
@pytest.mark.parametrize("name", sampled(NAMES, 4))
def test_jobs_that_run_in_combinations_only(name: str, suffix: str) -> None:
    jobs, workers = facts()
    if name in ALONE_ONLY:
        with pytest.raises(ap.InputError, match="job 'a' runs in combinations only"):
            ap.solve(name + suffix, combinations("ab c"), workers=workers, jobs=jobs)
        return
    found = ap.solve(name + suffix, combinations("ab c"), workers=workers, jobs=jobs)
    assert found.status == "optimal"
    assert np.isfinite(found.objective)
    assert found.throughput["b"] >= found.throughput["a"]
    if name == "max_min_fairness" and not suffix:
        assert found.objective == pytest.approx(1.0)  # half of the time on each, as the slices say
        np.testing.assert_allclose(found.throughput, [1.5, 2.5, 2.0])


@pytest.mark.parametrize("name", sampled(NAMES, 3))
def test_the_order_of_combinations_does_not_matter(name: str) -> None:
    jobs, workers = facts()
    one = ap.solve(name, combinations("a b c ab"), workers=workers, jobs=jobs)
    other = ap.solve(name, combinations("ab c b a"), workers=workers, jobs=jobs)
    np.testing.assert_allclose(other.X.loc[one.X.index], one.X, atol=1e-6)


def test_a_combination_runs_only_where_all_of_it_does() -> None:
    tensor = ap.ThroughputTensor.of_combinations(
        {("a", "b"): [[1.0, 0.0], [0.0, 3.0]], ("c",): [[1.0, 3.0]]}, ["v", "k"]
    )
    with pytest.raises(ap.InputError, match="Job 'a' fits nowhere"):
        ap.solve("max_min_fairness", tensor, workers="v=1,k=1")


def test_a_row_of_one_job_has_its_name() -> None:
    rows = pd.MultiIndex.from_tuples([("x", "a")])
    with pytest.raises(ap.InputError, match="a row of one job has the job's own id"):
        ap.ThroughputTensor(pd.DataFrame({"v": [1.0]}, index=rows))
