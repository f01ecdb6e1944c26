from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

from apportion.errors import InputError
from apportion.sim import generate_workload, simulate
from apportion.sim.schedule_files import batsim_jobs

if TYPE_CHECKING:
    from pathlib import Path

CLUSTER = "v100=4,p100=4,k80=4"


def _devices(text: str) -> list[int]:
    ends = [part.partition("-")[::2] for part in text.split()]
    return [k for low, high in ends for k in range(int(low), int(high or low) + 1)]


def test_every_stay_is_a_job_and_gpu_seconds_are_kept(tmp_path: Path) -> None:
    run = simulate("max_min_fairness", generate_workload(jobs=30, seed=3), CLUSTER)
    path = run.save_batsim(tmp_path / "jobs.csv")
    table = pd.read_csv(path, dtype={"allocated_resources": str})
    schedule = run.schedule
    assert len(table) == len(schedule)
    assert table["job_id"].is_unique
    assert table.groupby("metadata")["success"].sum().eq(1).all()
    gpus = table["allocated_resources"].map(_devices).map(len)
    assert (gpus == table["requested_number_of_resources"]).all()
    held = schedule["devices"].map(len) * (schedule["end_s"] - schedule["start_s"])
    assert (gpus * table["execution_time"]).sum() == pytest.approx(held.sum(), rel=1e-12)
    ends = table.groupby("metadata")["finish_time"].max()
    expected = run.jobs["completion_s"]
    np.testing.assert_allclose(ends, expected.reindex(ends.index), rtol=1e-12)
    assert (table["waiting_time"] >= -1e-6).all()


def test_no_device_is_used_twice_at_a_time() -> None:
    table = batsim_jobs(simulate("fifo", generate_workload(jobs=20, seed=1), CLUSTER))
    busy: dict[int, float] = {}
    rows = table.sort_values("starting_time")
    columns = (rows[name].tolist() for name in ("starting_time", "finish_time"))
    for text, start_s, end_s in zip(rows["allocated_resources"], *columns, strict=True):
        for device in _devices(text):
            assert 0 <= device < 12
            assert busy.get(device, 0.0) <= start_s
            busy[device] = end_s


def test_exact_shares_have_no_schedule_to_write() -> None:
    run = simulate("fifo", generate_workload(jobs=2), CLUSTER, mechanism="exact")
    with pytest.raises(InputError, match="has no schedule"):
        batsim_jobs(run)
