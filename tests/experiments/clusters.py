"""Sweeps on a cluster of two workers that were started by commands of their own; one is killed.

``python tests/experiments/clusters.py dask|ray FOLDER`` prints what happened, as JSON. It must run
in a network namespace with nothing but loopback, as Ray listens on all interfaces::

    unshare -n sh -c 'ip link set lo up; exec timeout 400 \
        python tests/experiments/clusters.py ray /tmp/x'
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

PORT = 8786
TOKEN = "a" * 64
SWEEP = ["sweep", "--policies", "fifo,isolated", "--cluster", "v100=4,k80=4"]
SWEEP += ["--generate", "jobs=40,scale_factors=single,jobs_per_hour=60"]
CLOCKS = {"policy_seconds", "wall_seconds"}


def main() -> None:
    """Run the sweeps and print what they printed."""
    engine, folder = sys.argv[1], Path(sys.argv[2])
    if [name for _, name in socket.if_nameindex()] != ["lo"]:
        sys.exit("There is more than loopback here; see the top of this file.")
    folder.mkdir(parents=True, exist_ok=True)
    os.environ |= {"HOME": str(folder), "OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0"}
    if engine == "ray":
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN}
    found: dict[str, Any] = {}
    with ExitStack() as stack:
        address, workers = (ray if engine == "ray" else dask)(stack, folder)
        found["wrong port"] = ended(engine, address.replace(str(PORT), str(PORT + 1)), folder / "x")
        if engine == "ray":
            wrong = os.environ | {"RAY_AUTH_TOKEN": "b" * 64}
            found["wrong token"] = ended(engine, address, folder / "x", env=wrong)
        found["whole"] = ended(engine, address, folder / "whole")
        found["one killed"] = killed(engine, address, folder / "killed", workers[-1])
        found["again"] = ended(engine, address, folder / "killed")
    names = ("whole", "killed")
    tables = [rows(folder / name / "runs.csv") for name in names]
    found["rows"] = len(tables[0]) - 1
    found["same rows"] = tables[0] == tables[1]
    print(json.dumps(found))


def rows(file: Path) -> list[list[str]]:
    """Return the table without the columns of measured seconds."""
    lines = [line.split(",") for line in file.read_text().splitlines()]
    kept = [place for place, name in enumerate(lines[0]) if name not in CLOCKS]
    return [[line[place] for place in kept] for line in lines]


def words(engine: str, address: str, out: Path) -> list[str]:
    seeds = ",".join(map(str, range(10)))
    where = ["--backend", engine, "--address", address, "--seeds", seeds, "--out", str(out)]
    return [sys.executable, "-m", "apportion", *SWEEP, *where]


def ended(engine: str, address: str, out: Path, **options: Any) -> dict[str, Any]:
    """Sweep, and return status, seconds and what was printed."""
    started = time.monotonic()
    done = subprocess.run(
        words(engine, address, out), capture_output=True, text=True, check=False, **options
    )
    return told(done.returncode, done.stdout, done.stderr, out, started)


def told(status: int, out: str, err: str, folder: Path, started: float) -> dict[str, Any]:
    log = folder / "runs.jsonl"
    finished = log.read_bytes().count(b"\n") if log.exists() else 0
    first = out.splitlines()[:1]
    seconds = round(time.monotonic() - started, 1)
    return {"status": status, "out": first, "err": err, "finished": finished, "s": seconds}


def killed(engine: str, address: str, out: Path, worker: int) -> dict[str, Any]:
    """Sweep, and kill the group of a worker once three runs are finished."""
    started = time.monotonic()
    log = out / "runs.jsonl"
    with subprocess.Popen(
        words(engine, address, out), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        while process.poll() is None and not (log.exists() and log.read_bytes().count(b"\n") > 2):
            time.sleep(0.01)
        before = log.read_bytes().count(b"\n")
        os.killpg(worker, signal.SIGKILL)
        printed, err = process.communicate()
    found = told(process.returncode, printed, err, out, started)
    return {"before": before, **found}


def dask(stack: ExitStack, folder: Path) -> tuple[str, list[int]]:
    """Start a scheduler and two workers."""
    address = f"tcp://127.0.0.1:{PORT}"
    python = [sys.executable, "-m"]
    options = ["--host", "127.0.0.1", "--no-dashboard"]
    stack.enter_context(
        started([*python, "distributed.cli.dask_scheduler", *options, "--port", str(PORT)], folder)
    )
    wait_for(PORT)
    options += ["--nthreads", "1", "--local-directory", str(folder)]
    command = [*python, "distributed.cli.dask_worker", address, *options]
    pids = [stack.enter_context(started(command, folder)) for _ in range(2)]
    counted = f"import distributed as d; d.Client({address!r}).wait_for_workers(2, timeout=100)"
    subprocess.run([sys.executable, "-c", counted], check=True)
    return address, pids


def ray(stack: ExitStack, folder: Path) -> tuple[str, list[int]]:
    """Start a head and a node of one CPU each."""
    address = f"127.0.0.1:{PORT}"
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--num-cpus", "1"]
    command += ["--node-ip-address", "127.0.0.1", "--object-store-memory", "100000000"]
    head = ["--head", "--port", str(PORT), "--include-dashboard", "false"]
    head += ["--temp-dir", str(folder / "r")]
    pids = [stack.enter_context(started([*command, *head], folder))]
    wait_for(PORT)
    time.sleep(5)
    node = ["--address", address, "--dashboard-agent-listen-port", "52400"]
    node += ["--min-worker-port", "20000", "--max-worker-port", "29999"]
    pids += [stack.enter_context(started([*command, *node], folder))]
    code = (
        f"import ray, time; ray.init({address!r}, log_to_driver=False)\n"
        "while ray.cluster_resources().get('CPU', 0) < 2: time.sleep(0.5)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    return address, pids


@contextmanager
def started(command: list[str], folder: Path) -> Iterator[int]:
    """Start a command as a process group of its own, which ends with the block."""
    with (
        (folder / "cluster.log").open("ab") as log,
        subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True) as process,
    ):
        try:
            yield process.pid
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def wait_for(port: int) -> None:
    """Wait until something listens, for a minute at most."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    sys.exit(f"Nothing listens on port {port}.")


if __name__ == "__main__":
    main()
