from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from apportion.cli import main
from apportion.errors import ApportionError
from apportion.experiments import compare, sweep
from apportion.experiments.machine import backends
from apportion.experiments.machine.dask_cluster import dask_workers
from apportion.experiments.machine.store import FILE
from apportion.experiments.machine.workers import as_they_finish
from apportion.policies import Policy
from apportion.sim import generate_workload

if TYPE_CHECKING:
    from pathlib import Path

    import cvxpy as cp

    from apportion.policies import Problem


def broken_policy() -> Policy:
    """A policy that fails in every run; a class in a function goes to workers by value."""

    class Broken(Policy):
        name = "broken"

        def objective(self, p: Problem) -> cp.Maximize:
            raise ZeroDivisionError("so it goes")

    return Broken()


WHAT: dict[str, Any] = {
    "policies": ["fifo", broken_policy()],
    "workloads": {"jobs": 2, "jobs_per_hour": 6.0},
    "cluster": "v100=2,k80=2",
    "seeds": [0, 1],
    "placement": "random",
}


def without_clocks(**options: Any) -> pd.DataFrame:
    table: pd.DataFrame = sweep(**WHAT, **options).table()
    return table.drop(columns=["policy_seconds", "wall_seconds"])


@pytest.fixture(scope="module")
def alone() -> pd.DataFrame:
    """The table as one process makes it."""
    return without_clocks(n_jobs=1)


def test_failing_runs_stop_no_others(alone: pd.DataFrame) -> None:
    assert alone["policy"].tolist() == ["fifo"] * 2 + ["broken"] * 2
    assert alone["mean_jct_s"].notna().tolist() == [True] * 2 + [False] * 2
    assert alone["error"].tolist()[:2] == [None] * 2
    for error in alone["error"].tolist()[2:]:
        assert error.startswith("ZeroDivisionError: so it goes, raised in broken_policy.")
        assert "test_backends.py:" in error


def test_two_processes_give_the_same_table(alone: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(without_clocks(n_jobs=2), alone)


@pytest.mark.slow
def test_a_dask_cluster_of_two_workers_gives_the_same_table(
    alone: pd.DataFrame, tmp_path: Path
) -> None:
    pytest.importorskip("distributed", reason="Dask is not installed: pip install apportion[dask]")
    table = without_clocks(backend="dask", n_jobs=2, out=tmp_path)
    pd.testing.assert_frame_equal(table, alone)
    assert len((tmp_path / FILE).read_text().splitlines()) == 4


def thread_name(task: int, report: object, shared: object) -> str:
    return threading.current_thread().name


@pytest.mark.thorough
def test_a_dask_cluster_that_runs_is_used_and_left_running(
    alone: pd.DataFrame, tmp_path: Path
) -> None:
    distributed = pytest.importorskip(
        "distributed", reason="Dask is not installed: pip install apportion[dask]"
    )
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
    ) as cluster:
        address = cluster.scheduler_address
        table = without_clocks(backend="dask", address=address, out=tmp_path)
        pd.testing.assert_frame_equal(table, alone)
        assert len((tmp_path / FILE).read_text().splitlines()) == 4
        workload = generate_workload(jobs=2, jobs_per_hour=6.0)
        compared = compare(["fifo"], workload, "v100=2,k80=2", backend="dask", address=address)
        here = compare(["fifo"], workload, "v100=2,k80=2", n_jobs=1)
        with dask_workers(address, None) as workers:
            for tasks in (1, 3):  # joblib would carry out in the driver what has one worker
                names = as_they_finish(thread_name, range(tasks), [None] * tasks, workers.at_once)
                assert "MainThread" not in dict(names).values()
        pd.testing.assert_frame_equal(compared.jobs(), here.jobs())
        with distributed.Client(address) as client:
            assert client.submit(sum, [1, 2]).result() == 3


@pytest.mark.slow
def test_a_ray_cluster_of_two_workers_gives_the_same_table(
    alone: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    ray = pytest.importorskip("ray", reason="Ray is not installed: pip install apportion[ray]")
    table = without_clocks(backend="ray", n_jobs=2, out=tmp_path)
    pd.testing.assert_frame_equal(table, alone)
    assert len((tmp_path / FILE).read_text().splitlines()) == 4
    assert not ray.is_initialized()
    # Neither a token in the home nor a mode in the environment, which would bind later clusters.
    assert not (tmp_path / ".ray").exists()
    assert not {"RAY_AUTH_MODE", "RAY_AUTH_TOKEN"} & set(os.environ)


@pytest.mark.parametrize("backend", ["ray", "dask"])
def test_an_engine_that_is_not_installed_is_named(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backends, "find_spec", lambda name: None)
    with pytest.raises(ApportionError, match=rf"pip install apportion\[{backend}\]"):
        sweep(**WHAT, backend=backend)


def workers_of(pid: int) -> list[int]:
    """Processes that a process has started to run tasks."""
    listed = subprocess.run(
        ["ps", "-ww", "-o", "pid=", "-o", "args=", "--ppid", str(pid)],
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line.split(maxsplit=1) for line in listed.stdout.splitlines()]
    return [int(number) for number, words in lines if "popen_loky" in words]


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="ps of Linux lists the workers")
def test_a_killed_sweep_leaves_no_workers_and_goes_on_where_it_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = shlex.split("sweep --policies fifo,isolated --cluster v100=4,k80=4")
    seeds = 12  # far more than end between the first line and the signal on a busy machine
    words += [
        "--generate",
        "jobs=4,scale_factors=single",
        "--seeds",
        ",".join(map(str, range(seeds))),
        "--out",
        str(tmp_path),
    ]
    log = tmp_path / FILE
    killed = subprocess.Popen(
        [sys.executable, "-m", "apportion", *words, "--jobs", "2"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while killed.poll() is None and not (log.exists() and log.read_bytes().count(b"\n")):
        time.sleep(0.01)
    killed.send_signal(signal.SIGSTOP)  # or it might be done by the time its workers are known
    workers = workers_of(killed.pid)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    before = log.read_bytes()
    runs = 2 * seeds
    assert 1 <= before.count(b"\n") < runs
    assert len(workers) == 2
    while any(map(is_running, workers)):  # without end if they stay, however busy the machine is
        time.sleep(0.05)
    with log.open("ab") as stream:
        stream.write(b'{"fingerprint": "cut o')

    assert main([*words, "--jobs", "1"]) == 0
    after = log.read_bytes()
    assert after.startswith(before)
    fingerprints = [json.loads(line)["fingerprint"] for line in after.splitlines()]
    assert set(Counter(fingerprints).values()) == {1}
    assert len(fingerprints) == runs
    done = before.count(b"\n")
    assert f"{done} of them finished before" in capsys.readouterr().out.splitlines()[0]
    assert len(pd.read_csv(tmp_path / "runs.csv")) == runs
