"""Groups of jobs in sweeps: those of single simulations, whoever ran them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import apportion as ap
from apportion.errors import InputError
from apportion.sim import resample

CLUSTER = "v100=2,k80=2"


def jobs_of_users() -> ap.Workload:
    jobs = ap.generate_workload(jobs=12, jobs_per_hour=4.0, seed=6)
    users = np.array(["ann", "bob", "eve"])[np.arange(12) % 3]
    return replace(jobs, name="three", jobs=jobs.jobs.assign(user=users))


@pytest.mark.thorough
def test_groups_of_a_sweep_are_those_of_its_runs(tmp_path: Path) -> None:
    jobs, policies = jobs_of_users(), ["fifo", "fcfs"]
    swept = ap.sweep(
        policies, jobs, CLUSTER, seeds=[1, 2], loads=[1, 2], resample=True, by="user", out=tmp_path
    )
    table = swept.by()
    assert len(table) == 2 * 2 * 2 * 3
    for (policy, load, seed), rows in table.groupby(["policy", "load", "seed"]):
        sooner = jobs.jobs.assign(arrival_s=jobs.jobs["arrival_s"] / float(str(load)))
        drawn = resample(replace(jobs, jobs=sooner), int(str(seed)))
        run = ap.simulate(
            str(policy), drawn, CLUSTER, seed=int(str(seed)), preemption_overhead_seconds="measured"
        )
        alone = run.by("user")
        beside = rows.set_index("user")[list(alone)]
        pd.testing.assert_frame_equal(beside, alone, check_dtype=False)
    assert "groups" not in swept.table()
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "groups.csv"), table, check_dtype=False)
    again = ap.sweep(
        policies, jobs, CLUSTER, seeds=[1, 2], loads=[1, 2], resample=True, by="user", out=tmp_path
    )
    assert again.resumed == len(swept)
    pd.testing.assert_frame_equal(again.by(), table)
    (shown,) = swept.group_tables().values()
    assert [row[:3] for row in shown.cells[:2]] == [("fifo", "1", "ann"), ("fifo", "1", "bob")]
    ann = table.query("policy == 'fifo' and load == 1 and user == 'ann'")["mean_jct_s"].mean()
    assert float(shown.cells[0][shown.header.index("mean JCT")]) == pytest.approx(
        ann / 3600, abs=0.005
    )


@pytest.mark.thorough
def test_another_column_is_another_sweep(tmp_path: Path) -> None:
    jobs = jobs_of_users()
    plain = ap.sweep(["fcfs"], jobs, CLUSTER, out=tmp_path)
    with pytest.raises(InputError, match="no groups of jobs"):
        plain.by()
    assert not (tmp_path / "groups.csv").exists()
    swept = ap.sweep(["fcfs"], jobs, CLUSTER, by="job_type", out=tmp_path)
    assert swept.resumed == 0
    assert set(swept.by()["job_type"]) == set(jobs.jobs["job_type"])


def test_unknown_columns_are_refused_before_anything_runs() -> None:
    with pytest.raises(InputError, match=r"'usr'\. Did you mean 'user'"):
        ap.sweep(["fcfs"], jobs_of_users(), CLUSTER, by="usr")
