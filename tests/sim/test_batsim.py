from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

from apportion.sim import generate_workload, simulate

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
