"""Schedules in files come back to the last bit, of one run and of many."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from tests.seeds import sampled
from tests.sim.workloads.generated import draw

import apportion as ap
from apportion.errors import InputError
from apportion.sim.schedule_files import intervals, numbers_in, read_schedule, save_schedule
from apportion.whole_files import this_machine

if TYPE_CHECKING:
    from pathlib import Path

ENDINGS = ["csv", "csv.gz", "parquet"]
POLICIES = ["fifo", "max_min_fairness", "gandiva_packing"]


@pytest.mark.parametrize("ending", sampled(ENDINGS, 3))
@pytest.mark.parametrize("seed", range(6))
def test_the_schedule_of_a_run_comes_back(seed: int, ending: str, tmp_path: Path) -> None:
    decider = [*POLICIES, "dally", "gandiva", "themis"][seed]
    run = draw(decider, np.random.default_rng(seed)).run()
    path = run.save_schedule(tmp_path / f"schedule.{ending}")
    pd.testing.assert_frame_equal(read_schedule(path), run.schedule, check_exact=True)
    again = run.save_schedule(str(tmp_path / f"again.{ending}"))
    assert again.read_bytes() == path.read_bytes()
    assert len(list(tmp_path.iterdir())) == 2


def test_drafts_of_dead_processes_are_removed_and_others_stay(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as dead:
        pass
    ours = f".run.csv.{this_machine()}"
    left = [f"{ours}.{dead.pid}.tmp", f"{ours}.{os.getppid()}.tmp", ".run.csv.mine.tmp"]
    left += [f".run.csv.another.{dead.pid}.tmp"]  # a process elsewhere, which may well be alive
    for name in left:
        (tmp_path / name).write_text("half")
    draw("fifo", np.random.default_rng(1)).run().save_schedule(tmp_path / "run.csv")
    assert {file.name for file in tmp_path.iterdir()} == {"run.csv", *left[1:]}


def test_names_that_are_no_names_of_a_spreadsheet_come_back(tmp_path: Path) -> None:
    names = ["=1+1", "NA", "nan", "'-x", "007", "a,b\n", "ü"]
    crowd = ap.generate_workload(jobs=len(names), seed=1)
    crowd = replace(crowd, jobs=crowd.jobs.set_axis(names))
    run = ap.simulate("fifo", crowd, "v100=2,k80=2")
    for ending in ENDINGS:
        path = run.save_schedule(tmp_path / f"schedule.{ending}")
        found = read_schedule(path)
        assert found["job"].tolist() == run.schedule["job"].tolist()
    assert "'=1+1" in (tmp_path / "schedule.csv").read_text()


def test_numbers_as_intervals_come_back_in_their_order() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        numbers = rng.permutation(12)[: rng.integers(0, 13)]
        if rng.random() < 0.5:
            numbers.sort()
        assert numbers_in(intervals(numbers.tolist())) == tuple(numbers.tolist())


@pytest.mark.thorough
@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_a_comparison_leaves_the_schedules_of_all(format: str, tmp_path: Path) -> None:
    crowd = ap.generate_workload(jobs=12, seed=2, scale_factors="gavel", jobs_per_hour=6)
    found = ap.compare(["fifo", "max_min_fairness"], crowd, "v100=4,k80=4", n_jobs=1)
    files = found.save(tmp_path) if format == "csv" else found.to_parquet(tmp_path)
    path = tmp_path / {"csv": "schedule.csv.gz", "parquet": "schedule.parquet"}[format]
    assert path in files
    for policy, run in found.runs.items():
        stays = read_schedule(path, policy)
        pd.testing.assert_frame_equal(stays, run.schedule, check_exact=True)
        # The schedule is enough to work the run out again.
        kept = replace(run, tables={**run.tables, "schedule": stays})
        ap.check_schedule(kept, crowd, found.cluster)
    assert len(read_schedule(path)) == sum(len(run.schedule) for run in found.runs.values())
    with pytest.raises(InputError, match=r"'fifi'.*fifo"):
        read_schedule(path, "fifi")


GOOD = "job,accelerator,machines,devices,start_s,end_s\n0,v100,0,0,0.0,1.0\n"
BAD: dict[str, Any] = {
    "empty": b"",
    "no column": GOOD.replace("devices", "device").encode(),
    "no number": GOOD.replace("1.0", "soon").encode(),
    "no devices": GOOD.replace("v100,0,0", "v100,0,x").encode(),
    "far too many devices": GOOD.replace("v100,0,0", "v100,0,0-99999999999").encode(),
    "backwards": GOOD.replace("v100,0,0", "v100,0,3-1").encode(),
    "no end": GOOD.replace("1.0", "nan").encode(),
    "no text": b"\xff\xfe\x00" + GOOD.encode(),
}


@pytest.mark.parametrize("what", BAD)
def test_what_is_no_schedule_is_said_to_be_none(what: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(BAD[what])
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(BAD[what]))
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(GOOD.encode())[:-12])
    (tmp_path / "a.parquet").write_bytes(BAD[what])
    for name in ("a.csv", "a.csv.gz", "b.csv.gz", "a.parquet"):
        with pytest.raises(InputError, match=f"{name}' is no schedule"):
            read_schedule(tmp_path / name)
    packed = bytearray(gzip.compress(GOOD.encode()))
    packed[10] = 0xFF  # a kind of block that there is not
    (tmp_path / "a.csv.gz").write_bytes(packed)
    with pytest.raises(InputError, match="is no schedule"):
        read_schedule(tmp_path / "a.csv.gz")


def test_places_where_no_file_can_be(tmp_path: Path) -> None:
    run = draw("fifo", np.random.default_rng(1)).run()
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="must end in"):
        save_schedule(run.schedule, tmp_path / "a.txt")
    for name in ("file/a.csv", "file/a.parquet"):
        with pytest.raises(InputError, match="Cannot write"):
            run.save_schedule(tmp_path / name)
        with pytest.raises(InputError, match="Cannot read"):
            read_schedule(tmp_path / name)
