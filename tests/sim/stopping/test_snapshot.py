"""A run that is stopped anywhere and started again ends as if it had never stopped."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.seeds import each_seed, sampled
from tests.sim.stopping.stops import Stopped, assert_equal, stopping
from tests.sim.workloads.generated import POLICIES, Case, draw

import apportion as ap
from apportion.errors import InputError
from apportion.resumable import array_of, plain
from apportion.sim.engine.snapshot import SnapshotError, Snapshots
from apportion.whole_files import this_machine

if TYPE_CHECKING:
    from pathlib import Path

    from apportion.sim import Run


def stopped_again_and_again(case: Case, path: Path, rng: np.random.Generator) -> tuple[Run, int]:
    """Run a case, killed after a few steps up to four times; return the result and the kills."""
    settings = {**case.settings, "snapshot": path}
    with stopping() as after:
        for kills in range(4):
            after(int(rng.integers(2, 40)))
            try:
                return case.run(settings=settings), kills
            except Stopped:
                pass
        return case.run(settings=settings), 4


def long(case: Case, factor: float) -> Case:
    jobs = case.workload.jobs
    jobs = jobs.assign(total_steps=jobs["total_steps"] * factor)
    return replace(case, workload=replace(case.workload, jobs=jobs))


@pytest.mark.thorough
@pytest.mark.parametrize("seed", each_seed(3, 12))
def test_a_run_that_was_killed_ends_the_same(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    shared = ("max_min_fairness_space_sharing", "gandiva_packing")
    policy = shared[seed // 4 % 2] if seed % 4 == 0 else POLICIES[seed % len(POLICIES)]
    case = long(draw(policy, rng, most_jobs=30), factor=1.0 + 5 * (seed % 3))
    if seed % 4 == 3:
        settings = {"mechanism": "exact", "resolve_seconds": case.settings["resolve_seconds"]}
        case = replace(case, settings=settings)
    elif case.workload.pairs is not None and seed % 8 == 4:
        pairs = case.workload.pairs
        wrong = replace(pairs, own=pairs.own * rng.uniform(0.5, 1.5, pairs.own.shape))
        case = replace(
            case, settings={**case.settings, "pair_estimates": wrong, "learn_pairs": True}
        )
    path = tmp_path / "run.json"
    killed, _ = stopped_again_and_again(case, path, rng)
    assert not path.exists()
    assert_equal(killed, case.run())


@pytest.mark.thorough
@pytest.mark.parametrize("mechanism", ["rounds", "exact"])
def test_a_policy_that_is_kept_warm_goes_on_to_the_last_bit(mechanism: str, tmp_path: Path) -> None:
    crowd = ap.generate_workload(jobs=40, seed=3, scale_factors="gavel", jobs_per_hour=8)
    cluster = ap.Cluster.of("v100=8,p100=8,k80=8")
    case = Case("max_min_fairness", crowd, cluster, {"mechanism": mechanism})
    rng = np.random.default_rng(7)
    killed, kills = stopped_again_and_again(case, tmp_path / "a" / "run.json", rng)
    assert kills >= 2
    assert_equal(killed, case.run())


SCHEDULERS = {
    "dally": ap.get_scheduler("dally", history_s=20000.0),
    "themis": ap.get_scheduler("themis", lease_s=900.0, migrates=True, restore_s_per_gpu=2.0),
    "gandiva": ap.get_scheduler("gandiva"),
    "tiresias": ap.get_scheduler("tiresias", keep_placement=True, lease_s=1800.0),
    "max_min_fairness": "max_min_fairness",
    "finish_time_fairness": "finish_time_fairness",
}


@pytest.mark.parametrize("name", sampled(SCHEDULERS, 3))
def test_leases_go_on_to_the_last_bit(name: str, tmp_path: Path) -> None:
    crowd = ap.generate_rack_workload(jobs=30, seed=5, max_scale_factor=16, arrivals="poisson")
    jobs = crowd.jobs.assign(
        total_steps=crowd.jobs["total_steps"] * 0.2, arrival_s=crowd.jobs["arrival_s"] * 0.1
    )
    racks = ap.Cluster.of_racks(2, machines_per_rack=2, gpus_per_machine=4)
    scheduler: Any = SCHEDULERS[name]
    settings = {"mechanism": "leases", "placement": "random", "seed": 4, "resolve_every": 4e4}
    case = Case(scheduler, replace(crowd, jobs=jobs), racks, settings)
    rng, path = np.random.default_rng(len(name)), tmp_path / "run.json"
    killed, kills = stopped_again_and_again(case, path, rng)
    assert kills == 4
    assert not path.exists()
    assert_equal(killed, case.run())


@pytest.mark.thorough
@pytest.mark.parametrize("speeds", ["told", pytest.param("estimated", marks=pytest.mark.slow)])
def test_rounds_over_tiers_go_on_to_the_last_bit(speeds: str, tmp_path: Path) -> None:
    crowd = ap.generate_rack_workload(jobs=30, seed=5, max_scale_factor=8, arrivals="poisson")
    racks = ap.Cluster.of_racks(2, machines_per_rack=2, gpus_per_machine=4)
    settings = {"mechanism": "rounds", "network": "table1", "speeds": speeds, "resolve_every": 9e3}
    case = Case("max_min_fairness", crowd, racks, settings)
    rng, path = np.random.default_rng(len(speeds)), tmp_path / "run.json"
    killed, kills = stopped_again_and_again(case, path, rng)
    assert kills >= 2
    assert_equal(killed, case.run())


def test_a_snapshot_of_another_call_and_a_damaged_one_are_refused(tmp_path: Path) -> None:
    rng, path = np.random.default_rng(1), tmp_path / "run.json"
    case = long(draw("max_min_fairness", rng), 5.0)

    with stopping() as after:
        after(1)
        with pytest.raises(Stopped):
            case.run(settings={**case.settings, "snapshot": path})
    whole = path.read_bytes()
    length_s = case.settings.get("round_seconds", 360.0)
    changed = f"another run: the policy differs; round_seconds was {length_s} and is 77.0 now. "
    state = json.loads(whole.splitlines()[0])
    settings = {**case.settings, "round_seconds": 77.0, "snapshot": path}
    with pytest.raises(InputError, match=changed):
        case.run(decider="fifo", settings=settings)
    with pytest.raises(
        InputError, match=r"mechanism was 'rounds' and is 'exact' now; .* not there"
    ):
        case.run(settings={"mechanism": "exact", "snapshot": path})
    broken = {**state, "parts": {**state["parts"], "truth": {}}}
    digit = whole.index(b'"data": "') + 12
    flipped = whole[:digit] + bytes([whole[digit] ^ 1]) + whole[digit + 1 :]
    cases = {
        b"{": "is no snapshot",
        b"": "is no snapshot",
        b"\xff" + whole: "is no snapshot",
        whole[:-70]: "is no snapshot",
        whole[: len(whole) // 2]: "is no snapshot",
        flipped: "checksum does not fit",
        sealed({**state, "version": 2}): "of another version of the program: its layout is 2",
        sealed({**state, "version": "x"}): "of another version of the program: its layout is 'x'",
        sealed({**state, "call": {**state["call"], "program": "0"}}): "the program differs",
        sealed(["version"]): "is no snapshot",
        sealed(broken): "is damaged",
    }
    for content, what in cases.items():
        path.write_bytes(content)
        with pytest.raises(SnapshotError, match=what):
            case.run(settings={**case.settings, "snapshot": path})
        assert path.read_bytes() == content
    path.write_bytes(whole)
    assert_equal(case.run(settings={**case.settings, "snapshot": path}), case.run())


def sealed(state: Any) -> bytes:
    body = json.dumps(state).encode()
    return body + b"\n" + hashlib.sha256(body).hexdigest().encode() + b"\n"


def test_a_disk_that_is_full_is_a_warning_and_leaves_the_last_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    case = long(draw("fifo", np.random.default_rng(1)), 5.0)
    settings = {**case.settings, "snapshot": tmp_path / "run.json", "snapshot_seconds": 1e-9}
    written: list[bytes] = []

    def fsync(number: int) -> None:
        found = list(tmp_path.glob("*.json"))
        assert [file.read_bytes() for file in found] == written[-1:]
        if len(written) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(next(tmp_path.glob(".*.tmp")).read_bytes())

    monkeypatch.setattr(os, "fsync", fsync)
    assert_equal(case.run(settings=settings), case.run())
    assert len(written) == 3
    assert "No space left on device). The run goes on." in caplog.text
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_vanishes_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = long(draw("fifo", np.random.default_rng(1)), 5.0)
    path, note = tmp_path / "a" / "b" / "run.json", Snapshots.note
    gone: list[bool] = []

    def and_vanish(snapshots: Snapshots, *where: Any) -> None:
        note(snapshots, *where)
        if len(gone) < 5:
            gone.append(path.exists())
            shutil.rmtree(tmp_path / "a")

    monkeypatch.setattr(Snapshots, "note", and_vanish)
    settings = {**case.settings, "snapshot": path, "snapshot_seconds": 1e-9}
    run = case.run(settings=settings)
    assert gone == [True] * 5
    assert not path.exists()
    assert_equal(run, case.run())


@pytest.mark.parametrize("name", ["", "file/run.json", "folder"])
def test_a_path_where_no_file_can_be_is_an_error_at_once(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    case = draw("fifo", np.random.default_rng(1))
    with pytest.raises(InputError, match="path of a file" if not name else "cannot be kept"):
        case.run(settings={**case.settings, "snapshot": name and tmp_path / name})
    assert (tmp_path / "file").read_text() == "mine"


def test_drafts_of_dead_processes_are_removed_and_others_stay(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as dead:
        pass
    case = draw("fifo", np.random.default_rng(1))
    ours = f".run.json.{this_machine()}"
    left = [f"{ours}.{dead.pid}.tmp", f"{ours}.{os.getppid()}.tmp", ".run.json.mine.tmp"]
    left += [f".run.json.another.{dead.pid}.tmp"]  # a process elsewhere, which may well be alive
    for name in left:
        (tmp_path / name).write_text("half")
    case.run(settings={**case.settings, "snapshot": tmp_path / "run.json"})
    assert {file.name for file in tmp_path.iterdir()} == {*left[1:]}


@pytest.mark.parametrize(
    "array",
    [
        np.array([0.1, -0.0, np.inf, np.nan, 1e-320]),
        np.zeros((0, 3)),
        np.arange(6).reshape(2, 3)[:, ::-1],
        np.array([[True], [False]]),
    ],
    ids=["floats", "nothing", "reversed", "truths"],
)
def test_arrays_come_back_bit_by_bit(array: np.ndarray[Any, Any]) -> None:
    back = array_of(json.loads(json.dumps(plain(array))))
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    assert back.tobytes() == np.ascontiguousarray(array).tobytes()


def test_an_array_of_anything_else_is_refused() -> None:
    with pytest.raises(ValueError, match="holds no numbers"):
        array_of({"kind": "|O", "shape": [1], "data": ""})
