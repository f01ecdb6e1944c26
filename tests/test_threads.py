"""Numbers depend neither on threads nor on processes, and limits are given back."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest
import scipy.linalg
from threadpoolctl import threadpool_info, threadpool_limits

from apportion.policies import solve
from apportion.threads import one_thread
from apportion.whole_files import replace_file

if TYPE_CHECKING:
    from pathlib import Path

ON = ["--cluster", "v100=8,p100=8,k80=8"]
FEW = ["--generate", "jobs=25", *ON]
CASES = {
    "rounds": ["--policies", "max_min_fairness_agnostic,fifo,finish_time_fairness", *FEW],
    "overhead": [
        *["--policies", "isolated,allox", "--generate", "jobs=25,scale_factors=single", *ON],
        *["--mechanism", "(preemption_overhead_seconds=30,resolve_seconds=1920)"],
    ],
    "leases": ["--policies", "dally,max_min_fairness", "--racks", "1", "--generate", "jobs=20"],
}


def jobs_table(out: Path, options: list[str], threads: str | None, processes: int) -> bytes:
    """Run `apportion compare` in a process of its own; return its jobs.csv."""
    environment = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    if threads is not None:
        environment["OMP_NUM_THREADS"] = threads
    command = [sys.executable, "-m", "apportion", "compare", *options, "--out", str(out)]
    subprocess.run(
        [*command, "--jobs", str(processes)],
        env=environment,
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    return (out / "jobs.csv").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_the_same_bytes_with_any_number_of_threads_and_processes(case: str, tmp_path: Path) -> None:
    tables = [
        jobs_table(tmp_path / f"{threads}-{processes}", CASES[case], threads, processes)
        for threads, processes in product((None, "1", "2"), (1, 2))
    ]
    assert tables[1:] == tables[:-1]


def threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture
def two_threads() -> None:
    """Skip where linear algebra has one thread whatever is asked for."""
    scipy.linalg.lu_factor(np.eye(2))
    with threadpool_limits(2):
        if 2 not in threads():
            pytest.skip("linear algebra has one thread here")


@pytest.mark.usefixtures("two_threads")
def test_calls_inside_calls_and_errors_give_back_what_was_there() -> None:
    @one_thread
    def inner() -> set[int]:
        return threads()

    @one_thread
    def outer() -> list[set[int]]:
        return [inner(), threads()]

    @one_thread
    def fails() -> None:
        raise KeyError

    with threadpool_limits(2):
        before = threads()
        assert outer() == [{1}, {1}]
        with pytest.raises(KeyError):
            fails()
        assert threads() == before


@pytest.mark.usefixtures("two_threads")
def test_the_limit_holds_until_the_last_of_several_callers_is_out() -> None:
    """The one who came first leaves while the other still computes."""
    other_is_in, first_is_out = threading.Event(), threading.Event()
    seen: list[set[int]] = []

    @one_thread
    def other() -> None:
        other_is_in.set()
        first_is_out.wait(30)
        seen.append(threads())

    with threadpool_limits(2):
        before = threads()
        caller = threading.Thread(target=other)
        with one_thread:
            caller.start()
            other_is_in.wait(30)
            assert threads() == {1}
        first_is_out.set()
        caller.join()
        assert seen == [{1}]
        assert threads() == before


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("seed", range(3))
def test_allocations_do_not_depend_on_threads(seed: int) -> None:
    rng = np.random.default_rng(seed)
    speed = {f"t{k}": rng.uniform(1, 9, 150).tolist() for k in range(4)}
    rows = {f"{job}": {name: of[job] for name, of in speed.items()} for job in range(150)}
    workers = dict.fromkeys(speed, 20)
    found = []
    for count in (1, 2):
        with threadpool_limits(count):
            found.append(solve("max_min_fairness", rows, workers=workers).X.to_numpy().tobytes())
    assert found[0] == found[1]


def test_threads_may_replace_one_file(tmp_path: Path) -> None:
    """Whoever is last is whole, nobody fails, and no draft stays."""
    path, contents = tmp_path / "table.csv", [bytes([65 + k]) * 200_000 for k in range(6)]

    def write(content: bytes) -> list[bytes]:
        seen = []
        for _ in range(10):
            replace_file(path, content)
            seen.append(path.read_bytes())
        return seen

    with ThreadPoolExecutor(len(contents)) as pool:
        seen = {each for part in pool.map(write, contents) for each in part}
    assert seen <= set(contents)
    assert list(tmp_path.iterdir()) == [path]
