"""What a killed or failed command leaves behind: exact, checked, and never carried out."""

from __future__ import annotations

import os
import pickle
import re
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest

import apportion
from apportion.cli import main
from apportion.cluster import Cluster
from apportion.experiments import compare, simulations
from apportion.experiments.comparisons.run import FOLDER
from apportion.experiments.machine import run as machine
from apportion.experiments.machine.cells import Cell, NotPlainError
from apportion.experiments.machine.store import FILE, Store
from apportion.experiments.run_records import record_of, run_of
from apportion.experiments.simulations import Setup, runs_of
from apportion.sim import Run, generate_rack_workload, generate_workload, simulate

SMALL = generate_workload(jobs=5, seed=1, jobs_per_hour=12.0, scale_factors="gavel")
CLUSTER = Cluster.of("v100=4,p100=4,k80=4")


def kept(folder: Path, run: Run, **settings: Any) -> dict[str, Any]:
    """What a store has of a run, to which it is added, by fingerprint."""
    label = {"policy": run.policy, "workload": run.workload}
    cell, work = Cell(label, "a1", None), runs_of(Setup({}, run.cluster, settings))
    store = Store(folder / FILE)
    store.open(resume=True)
    machine._keep(cell, run, work, store)
    return machine._finished([cell], work, store)


def through_a_file(folder: Path, run: Run, **settings: Any) -> Run:
    (found,) = kept(folder, run, **settings).values()
    return cast("Run", found)


def assert_same(found: Run, run: Run) -> None:
    assert (found.policy, found.workload, found.cluster) == (run.policy, run.workload, run.cluster)
    assert (found.settings, found.solves) == (run.settings, run.solves)
    assert list(found.settings) == list(run.settings)
    assert (found.policy_seconds, found.wall_seconds) == (run.policy_seconds, run.wall_seconds)
    tables = {"jobs": run.jobs, "rounds": run.rounds, **run.tables}
    for name, table in {"jobs": found.jobs, "rounds": found.rounds, **found.tables}.items():
        pd.testing.assert_frame_equal(table, tables.pop(name), check_exact=True)
    assert not tables
    assert found.jobs.to_csv() == run.jobs.to_csv()


@pytest.mark.parametrize("settings", [{}, {"mechanism": "exact"}, {"placement": "random"}])
def test_runs_come_back_bit_for_bit(settings: dict[str, Any], tmp_path: Path) -> None:
    run = simulate("fifo", SMALL, CLUSTER, **settings)
    assert_same(through_a_file(tmp_path, run, **settings), run)


def test_runs_on_racks_come_back_with_their_timers(tmp_path: Path) -> None:
    workload, cluster = generate_rack_workload(jobs=12, seed=0), Cluster.of_racks(1)
    run = simulate("dally", workload, cluster)
    assert set(run.tables) == {"schedule", "timers"}
    assert_same(through_a_file(tmp_path, run), run)


LABELS = {
    "texts": ["a", "", "ü\n,\"'"],
    "whole numbers": [3, -1, 2**40],
    "fractions": [0.1, 1e-300, float("nan")],
    "a mixture": ["a", 1, 0.5],
    "pairs": [("a", 1), ("a", 2), ("b", 1)],
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
def test_any_labels_and_numbers_come_back(labels: list[Any], tmp_path: Path) -> None:
    run = simulate("fifo", SMALL, CLUSTER)
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**63, 3).view(np.float64)
    index = pd.Index(labels, name="job", tupleize_cols=False)
    jobs = pd.DataFrame(
        {
            "odd": [0.1 + 0.2, -0.0, 5e-324],
            "not_finite": [np.nan, np.inf, -np.inf],
            "bits": bits,
            "text": ["x", None, "z"],
            "whole": np.array([1, 2, 3], dtype=np.int32),
            "flag": [True, False, True],
        },
        index=index,
    )
    changed = replace(run, jobs=jobs)
    assert_same(through_a_file(tmp_path, changed), changed)
    found = through_a_file(tmp_path, changed).jobs
    assert found["odd"].to_numpy().tobytes() == jobs["odd"].to_numpy().tobytes()
    assert found["bits"].to_numpy().tobytes() == bits.tobytes()


def test_what_plain_values_cannot_hold_is_not_kept(tmp_path: Path) -> None:
    run = simulate("fifo", SMALL, CLUSTER)
    dated = replace(run, jobs=run.jobs.assign(day=pd.Timestamp(0)))
    with pytest.raises(NotPlainError, match="datetime64"):
        record_of(dated, {})
    assert kept(tmp_path, dated) == {}
    with pytest.raises(LookupError):
        run_of({}, "fifo", "small", CLUSTER, {})


def mutated(content: bytes, rng: np.random.Generator) -> bytes:
    """Change, take out, put in or repeat bytes, cut the end off, or exchange two pieces."""
    place, other = sorted(int(each) for each in rng.integers(0, len(content), 2))
    byte = bytes([int(rng.integers(0, 256))])
    changes = (
        content[:place] + byte + content[place + 1 :],
        content[:place] + byte + content[place:],
        content[:place] + content[other:],
        content[:place],
        content[:other] + content[place:],
        content[other:] + content[:place],
        content[:place] + content[other : other + 1] + content[place + 1 :],
    )
    return changes[int(rng.integers(0, len(changes)))]


def test_no_mutated_file_gives_another_run_than_was_stored(tmp_path: Path) -> None:
    log = Store(tmp_path / FILE)
    log.open(resume=False)
    written = {}
    for number in range(3):
        record = {"fingerprint": f"f{number}", "policy": "fifo", "x": [0.1 * number, 1e9], "e": ""}
        log.append(record)
        written[f"f{number}"] = record
    content = (tmp_path / FILE).read_bytes()
    rng = np.random.default_rng(0)
    lost = 0
    for _ in range(1000):
        (tmp_path / FILE).write_bytes(mutated(content, rng))
        found = log.finished()
        assert found.items() <= written.items()
        lost += len(found) < len(written)
    assert lost > 600
    assert log.finished(["f1"]).keys() <= {"f1"}


def test_a_damaged_or_foreign_line_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = Store(tmp_path / FILE)
    log.append({"fingerprint": "a", "error": None})
    with (tmp_path / FILE).open("ab") as stream:
        stream.write(b'{"fingerprint": "b", "error": null}\n7\n{"finger\n')
    assert list(log.finished()) == ["a"]
    assert "line 2 and 2 more: damaged" in caplog.text


class Trap:
    """Makes a folder when a pickle of it is read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.mkdir, (self.folder,)


def test_stored_files_are_never_carried_out(tmp_path: Path) -> None:
    out, trap = tmp_path / "out", tmp_path / "trap"
    (out / FOLDER).mkdir(parents=True)
    for name in (FILE, "fifo-0123456789abcdef.pickle"):
        (out / FOLDER / name).write_bytes(pickle.dumps(Trap(trap)) + b"\n")
    compare(["fifo"], SMALL, CLUSTER, n_jobs=1, out=out)
    assert not trap.exists()
    assert not (out / FOLDER).exists()
    # Policies are copied by their contract, workloads and own parts sent to workers: in memory.
    package = Path(apportion.__file__).parent
    unpickles = re.compile(r"pickle\.loads?\(|Unpickler|cloudpickle")
    folders = [
        package,
        *(package / name for name in ("policies", "mechanism", "estimators", "sim")),
    ]
    found = {file for folder in folders for file in folder.rglob("*.py")}  # behind links as well
    users = [file for file in found if unpickles.search(file.read_text())]
    sent = {"experiments/machine/shipping.py"}
    copied = {"testing/policy.py", "testing/same_runs.py"}
    assert {file.relative_to(package).as_posix() for file in users} <= copied | sent


@pytest.mark.thorough
def test_a_comparison_resumed_from_damaged_files_writes_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopping(policy: Any, *args: Any, **options: Any) -> Run:
        if policy.label == "isolated":
            raise KeyboardInterrupt
        return simulate(policy, *args, **options)

    def again() -> bytes:
        compare(["fifo", "makespan", "isolated"], SMALL, CLUSTER, n_jobs=1, out=tmp_path)
        return (tmp_path / "jobs.csv").read_bytes()

    whole = again()
    with monkeypatch.context() as patch:
        patch.setattr(simulations, "simulate", stopping)
        with pytest.raises(KeyboardInterrupt):
            again()
    stored = (tmp_path / FOLDER / FILE).read_bytes()
    rng = np.random.default_rng(0)
    for content in [stored, *(mutated(stored, rng) for _ in range(5))]:
        (tmp_path / FOLDER).mkdir(exist_ok=True)
        (tmp_path / FOLDER / FILE).write_bytes(content)
        assert again() == whole


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_a_killed_comparison_goes_on_and_writes_the_same_bytes(tmp_path: Path) -> None:
    words = shlex.split(
        "compare --policies fifo,isolated,makespan --generate jobs=12 --cluster v100=8 --jobs 1"
    )
    assert main([*words, "--out", str(tmp_path / "whole")]) == 0
    killed = tmp_path / "killed"
    command = [sys.executable, "-m", "apportion", *words, "--out"]
    log = killed / FOLDER / FILE
    with subprocess.Popen([*command, str(killed)], stdout=subprocess.DEVNULL) as process:
        while process.poll() is None and not (log.exists() and log.stat().st_size):
            time.sleep(0.005)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
    assert main([*words, "--out", str(killed)]) == 0
    assert (killed / "jobs.csv").read_bytes() == (tmp_path / "whole" / "jobs.csv").read_bytes()
    assert not log.exists()
