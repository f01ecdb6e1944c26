"""Lies in runs, against a loop written out over `solve`, and where nothing can be gained."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.seeds import each_seed, sampled

import apportion as ap
from apportion.answers.one_lie import FAMILY

TYPES = ("k80", "v100")


def drawn(seed: int, jobs: int = 5) -> ap.Workload:
    """Draw single-GPU jobs and pairs of types of their own, by two users."""
    rng = np.random.default_rng(seed)
    names = [f"job{number}" for number in range(jobs)]
    kinds = [f"model {number}" for number in range(jobs)]
    gang = rng.choice([1, 2], jobs)
    table = {"arrival_s": rng.integers(0, 4, jobs) * 1000.0, "job_type": kinds}
    table |= {"scale_factor": gang, "total_steps": rng.uniform(1e4, 9e4, jobs)}
    table |= {"weight": rng.choice([1.0, 2.0], jobs), "user": rng.choice(["ann", "bob"], jobs)}
    pairs = [(kind, size) for kind in kinds for size in (1, 2, 4)]
    rows = pd.MultiIndex.from_tuples(pairs, names=["job_type", "scale_factor"])
    speeds = pd.DataFrame(rng.uniform(1, 9, (len(rows), 2)), rows, list(TYPES))
    return ap.Workload("drawn", pd.DataFrame(table, index=names), speeds)


def lived(policy: Any, load: Any, gpus: str, lie: tuple[Any, ...]) -> Any:
    """When jobs are done if one lies: shares of `solve` at what is told, worked at true speeds."""
    about, kind, factor, who = lie
    facts: Any = load.jobs
    true: Any = load.throughput_of(gpus)
    said, gang, weight = true.copy(), facts["scale_factor"].copy(), facts["weight"].copy()
    work: Any = pd.Series(1.0, facts.index)
    if about == "speed":
        said.loc[who, kind] *= factor
    elif about == "work":
        work[who] = factor
    elif about == "weight":
        weight[who] *= factor
    else:
        gang[who] *= 2
        large = load.throughputs.loc[(facts.loc[who, "job_type"], gang[who])]
        fits = gang[who] <= pd.Series(ap.Cluster.of(gpus).gpus)
        said.loc[who] = large.where(fits, 0.0)[said.columns]
        true.loc[who] = true.loc[who].where(said.loc[who] > 0, 0.0)
    left, now_s = facts["total_steps"].copy(), 0.0
    done_s: dict[str, float] = {}
    while len(done_s) < len(facts):
        here = [job for job in facts.index if facts.loc[job, "arrival_s"] <= now_s]
        here = [job for job in here if job not in done_s]
        later = facts.loc[facts["arrival_s"] > now_s, "arrival_s"].min()
        if not here:
            now_s = later
            continue
        told = {"steps_remaining": left[here] * work[here], "weight": weight[here]}
        told |= {"scale_factor": gang[here], "arrival_s": facts.loc[here, "arrival_s"]}
        found = ap.solve(policy, said.loc[here], workers=gpus, jobs=pd.DataFrame(told))
        rate = (found.X[list(TYPES)] * true.loc[here, list(TYPES)]).sum(axis=1)
        ends = (left[here] / rate.where(rate > 1e-12)).min()
        step = min(ends, later - now_s) if later > now_s else ends
        left[here] -= rate * step
        now_s += step
        done_s |= {job: now_s for job in here if left[job] <= 1e-7 * facts.loc[job, "total_steps"]}
    return pd.Series(done_s) - facts["arrival_s"]


@pytest.mark.parametrize(
    "policy", sampled(["max_min_fairness", "shortest_job_first", "isolated"], 3)
)
@pytest.mark.parametrize("seed", each_seed(1, 40))
def test_all_lies_bring_what_a_loop_over_solve_says(policy: str, seed: int) -> None:
    load, gpus = drawn(seed, jobs=3), "k80=2,v100=2"
    found = ap.try_lies(policy, load, gpus, lies=1000, n_jobs=1, mechanism="exact")
    assert len(found.table) == found.family
    honest = lived(policy, load, gpus, ("weight", "", 1.0, "job0"))
    np.testing.assert_allclose(found.run.jobs["jct_s"], honest[load.jobs.index], rtol=1e-6)
    row: Any
    # Kinds of lies take turns in threes and fours.
    every = found.table if seed else found.table[::7]
    for row in every.itertuples(index=False):
        lied = lived(policy, load, gpus, (row.about, row.accelerator, row.factor, row.job))
        assert row.lied_jct_s == pytest.approx(lied[row.job], rel=1e-6)
        assert row.jct_s == pytest.approx(honest[row.job], rel=1e-6)
        others = (lied - honest).drop(row.job).mean()
        assert row.others_lost_s == pytest.approx(others, rel=1e-5, abs=1.0)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", each_seed(1, 60))
def test_nobody_gains_under_isolated_shares(seed: int) -> None:
    found = ap.try_lies(
        "isolated", drawn(seed, jobs=3), "k80=3,v100=3", lies=1000, n_jobs=1, mechanism="exact"
    )
    assert not len(found.pay)
    assert f"no lie of {found.family} tried helped" in repr(found)


@pytest.mark.thorough
def test_what_the_queue_does_not_look_at_changes_nothing() -> None:
    load = drawn(1, jobs=8)
    found = ap.try_lies("fcfs", load, "v100=2", lies=1000, n_jobs=1)
    heard = found.table["about"] == "gpus"
    assert (found.table.loc[~heard, "ratio"] == 1.0).all()
    assert (found.table.loc[~heard, "others_lost_s"] == 0.0).all()
    assert {*found.table["about"]} == {*FAMILY}


@pytest.mark.thorough
def test_a_planted_lie_is_found_and_told() -> None:
    """Who says that the work is short is served first by the shortest job first, and waits else."""
    speeds = pd.DataFrame(
        {"v100": [1.0]}, pd.MultiIndex.from_tuples([("m", 1)], names=["job_type", "scale_factor"])
    )
    steps = {"long": 20_000.0, "short": 9_000.0, "shorter": 8_000.0}
    jobs = pd.DataFrame({"arrival_s": 0.0, "total_steps": steps, "job_type": "m", "user": "ann"})
    load = ap.Workload("three", jobs, speeds)
    how: dict[str, Any] = {"n_jobs": 1, "mechanism": "exact"}
    found = ap.try_lies("shortest_job_first", load, "v100=1", lies=1000, **how)
    best = found.table.iloc[0]
    assert best["job"] == "short"  # 17,000 s if it tells the truth, 9,000 s if it comes first
    assert "'short' says " in repr(found)
    assert "takes 2.5 h in place of 4.72 h" in repr(found)
    long = found.table[(found.table["job"] == "long") & (found.table["about"] == "work")].iloc[0]
    assert long["factor"] == 0.1
    assert (long["jct_s"], long["lied_jct_s"]) == pytest.approx((37_000.0, 20_000.0))
    assert long["others_lost_s"] == pytest.approx(20_000.0)
    few = ap.try_lies("shortest_job_first", load, "v100=1", lies=9, **how)
    assert (few.table["job"] == "long").all()  # who waits longest lies first


@pytest.mark.thorough
def test_an_audit_has_the_lies_of_its_run() -> None:
    load, gpus = drawn(2, jobs=8), "k80=2,v100=2"
    found = ap.try_lies("max_min_fairness", load, gpus, lies=16, n_jobs=1)
    seen = ap.audit_run(found.run, load, lies=found)
    assert seen.lies_tried == 16
    assert found.told in repr(seen)
    counted = seen.by(load.jobs["user"])["gain_by_lies"]
    gains = load.jobs.loc[found.pay["job"].unique(), "user"].value_counts()
    assert counted[counted > 0].to_dict() == gains.to_dict()
    both = ap.try_lies("max_min_fairness", load, gpus, lies=16, by="user", n_jobs=1)
    assert {*both.table["user"]} == {"ann", "bob"}
    ap.audit_run(both.run, load, lies=both).by(load.jobs["user"])
    with pytest.raises(ap.InputError, match="another run"):
        ap.audit_run(ap.simulate("fcfs", load, gpus), load, lies=found)


@pytest.mark.thorough
def test_neither_workers_nor_the_order_of_rows_change_the_lies() -> None:
    load = drawn(3, jobs=8)
    turned = ap.Workload("drawn", load.jobs[::-1], load.throughputs[::-1])
    one = ap.try_lies("max_min_fairness", load, "k80=2,v100=2", lies=12, n_jobs=1)
    two = ap.try_lies("max_min_fairness", turned, "v100=2,k80=2", lies=12, n_jobs=2)
    pd.testing.assert_frame_equal(one.table, two.table, check_exact=True)


@pytest.mark.parametrize(
    ("policy", "how", "words"),
    [
        ("max_min_fairness", {"lies": 0}, "lies"),
        ("max_min_fairness", {"by": "team"}, "no column of the jobs"),
        ("max_min_fairness", {"speeds": "estimated"}, "Nobody is told speeds"),
        ("max_min_fairness_space_sharing", {}, "may share them"),
        ("srsf_1", {}, "may share them"),
    ],
)
def test_what_cannot_be_tried_is_refused(policy: str, how: dict[str, Any], words: str) -> None:
    with pytest.raises(ap.InputError, match=words):
        ap.try_lies(policy, drawn(0), "k80=4,v100=4", **how)
