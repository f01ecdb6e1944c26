"""Addresses where nothing answers, workers that are gone, and what goes to each worker."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
from typing import TYPE_CHECKING, Any

import joblib
import numpy as np
import pandas as pd
import pytest

from apportion.errors import ApportionError
from apportion.experiments import plan_sweep, sweep
from apportion.experiments.machine import ray_cluster
from apportion.experiments.machine.shipping import shipped
from apportion.experiments.machine.workers import Workers, as_they_finish
from apportion.sim import Workload, generate_workload

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apportion.experiments.machine.cells import Report

BIG = np.arange(10_000.0)


def many_jobs() -> Workload:
    return generate_workload(jobs=2000, seed=0, jobs_per_hour=20.0)


def test_a_task_is_small_however_large_its_workload_is() -> None:
    plan = plan_sweep(["fifo", "makespan"], many_jobs(), "v100=8,p100=8,k80=8", seeds=[0, 1])
    assert len(pickle.dumps(plan.setup)) > 100_000
    assert all(len(pickle.dumps(cell.task)) < 5_000 for cell in plan.cells)


def test_what_is_large_goes_to_a_process_when_it_starts_and_not_with_its_tasks() -> None:
    with joblib.parallel_config(backend="loky"):
        given, options = shipped({"x": BIG}, 1000)
        small, none = shipped({"x": 1}, 1000)
        again, _ = shipped({"x": BIG.copy()}, 1000)
        few, none_either = shipped({"x": BIG}, 10)
    assert len(pickle.dumps(given)) < 500
    # Equal, so that workers which have it already are used again.
    assert given == again
    options["initializer"](*options["initargs"])
    assert given.get()["x"].tolist() == BIG.tolist()
    assert (small.get(), none) == ({"x": 1}, {})
    # For a few tasks processes that run already are not started anew.
    assert (len(few.get()["x"]), none_either) == (len(BIG), {})


def test_what_cannot_be_sent_at_once_goes_with_the_tasks() -> None:
    assert shipped({"function": lambda: BIG}, 1000)[1] == {}


def test_every_task_gets_what_is_shared() -> None:
    def total(task: int, report: Report | None, shared: Any) -> float:
        return task + float(shared.sum())

    found = dict(as_they_finish(total, [1, 2, 3], [None] * 3, 1, BIG))
    assert [found[number] for number in range(3)] == [each + BIG.sum() for each in (1, 2, 3)]


@pytest.mark.thorough
def test_a_given_workload_is_swept_alike_in_any_number_of_processes() -> None:
    what: dict[str, Any] = {"workloads": generate_workload(jobs=4, jobs_per_hour=10.0)}
    what |= {"policies": ["fifo", "isolated"], "cluster": "v100=2", "seeds": [0, 1]}
    one, two = (sweep(**what, resample=True, n_jobs=n).table() for n in (1, 2))
    clocks = ["policy_seconds", "wall_seconds"]
    pd.testing.assert_frame_equal(one.drop(columns=clocks), two.drop(columns=clocks))


@pytest.mark.thorough
def test_a_process_that_dies_is_one_error_that_says_how_to_go_on() -> None:
    def dying(task: int, report: Report | None, shared: Any) -> int:
        if task == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return task

    with pytest.raises(ApportionError, match=r"process died.*terminated.*the same call or command"):
        list(as_they_finish(dying, [0, 1, 2], [None] * 3, 2))


class NodeDied(Exception):
    """What an engine raises when it loses a node."""


def results(error: BaseException) -> Iterator[int]:
    yield 1
    raise error


def test_a_lost_node_is_one_line_that_says_how_to_go_on() -> None:
    workers = Workers(2, "Ray", (NodeDied,))
    found: list[int] = []
    with pytest.raises(ApportionError) as caught:
        found.extend(workers.or_lost(results(NodeDied("node 7 is gone.\n\tmany\nmore lines"))))
    assert str(caught.value) == (
        "The Ray cluster lost a worker, a node or the connection (NodeDied: node 7 is gone). "
        "Finished runs are kept where there is an output folder; the same call or command goes on "
        "from there."
    )
    with pytest.raises(ZeroDivisionError):
        list(workers.or_lost(results(ZeroDivisionError())))


def test_an_interruption_is_a_loss_only_if_the_cluster_is_gone() -> None:
    workers = Workers(2, "Dask")
    with pytest.raises(KeyboardInterrupt):
        list(workers.or_lost(results(KeyboardInterrupt())))
    workers.gone.set()
    with pytest.raises(ApportionError, match="connection to the Dask cluster is lost"):
        list(workers.or_lost(results(KeyboardInterrupt())))


@pytest.fixture
def closed_port() -> int:
    """A port of this machine where nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def small(backend: str, address: str) -> Any:
    jobs = {"jobs": 2, "jobs_per_hour": 6.0}
    return sweep(["fifo"], jobs, "v100=2,k80=2", backend=backend, address=address)


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_a_wrong_port_of_ray_is_told_at_once(closed_port: int, scheme: str) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install apportion[ray]")
    with pytest.raises(ApportionError, match=r"Cannot reach a Ray cluster.*RAY_AUTH_MODE=token"):
        small("ray", f"{scheme}127.0.0.1:{closed_port}")


@pytest.mark.parametrize(
    ("outcome", "message"),
    [
        (subprocess.TimeoutExpired("ray", 60), "has not answered in 60 s.*RAY_AUTH_MODE=token"),
        (
            subprocess.CompletedProcess("ray", 1, "", "Traceback\nOSError: no token\n\n"),
            "Cannot reach .* OSError: no token.*RAY_AUTH_MODE=token",
        ),
    ],
)
def test_what_does_not_let_us_in_is_told(
    outcome: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*args: Any, **options: Any) -> Any:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(ApportionError, match=message):
        ray_cluster._check_reachable("auto")


@pytest.mark.thorough
def test_a_wrong_port_of_dask_is_told(closed_port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed", reason="Dask is not installed: pip install apportion[dask]")
    monkeypatch.setattr("apportion.experiments.machine.dask_cluster._SECONDS_TO_CONNECT", 1.0)
    with pytest.raises(ApportionError, match=r"Cannot reach a Dask cluster.*dask scheduler"):
        small("dask", f"tcp://127.0.0.1:{closed_port}")


@pytest.mark.parametrize("mode", [None, "token", "disabled"])
@pytest.mark.parametrize("token", [None, "mine"])
def test_a_token_for_a_local_cluster_leaves_no_trace(
    mode: str | None, token: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_cluster, "_forget_token", lambda: None)
    for name, value in {"RAY_AUTH_MODE": mode, "RAY_AUTH_TOKEN": token}.items():
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    before = dict(os.environ)
    with ray_cluster._own_token(needed=True):
        own = os.environ.get("RAY_AUTH_TOKEN")
        assert own == token if mode or token else len(own or "") == 64
        os.environ.setdefault("RAY_AUTH_MODE", "token")  # as Ray does
    if mode is None:
        assert dict(os.environ) == before
