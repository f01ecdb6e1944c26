"""Commands and workers that are killed at any time: started again, they end with the same files."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
pytestmark = pytest.mark.slow


@pytest.mark.skipif(sys.platform == "win32", reason="forks, to kill the work itself")
@pytest.mark.parametrize("what", ["compare", "sweep"])
def test_ten_kills_change_no_file(what: str) -> None:
    # In a process of its own: a fork of a test session may wait for its threads for ever.
    done = subprocess.run(
        [sys.executable, str(HERE / "kills.py"), what, "10"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith(f"{what}: 10 kills over ")
    assert ", 0 wrong" in done.stdout, done.stdout


def only_loopback(*words: str) -> list[str]:
    """Make a command that sees no network but loopback."""
    return ["unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", *words]


def on_a_cluster(engine: str) -> dict[str, Any]:
    """Run ``clusters.py``, or skip where that cannot be."""
    try:
        subprocess.run(only_loopback("true"), check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("network namespaces are impossible here")
    # The paths of Ray's sockets must be short.
    with tempfile.TemporaryDirectory(prefix="c") as folder:
        words = ["timeout", "500", sys.executable, str(HERE / "clusters.py"), engine, folder]
        done = subprocess.run(only_loopback(*words), capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def last_line(found: dict[str, Any]) -> str:
    """What the command said at its end."""
    return str(found["err"].splitlines()[-1])


def check(found: dict[str, Any]) -> None:
    """Check what does not depend on the engine."""
    assert found["wrong port"]["status"] == 1
    assert last_line(found["wrong port"]).startswith("apportion: error: Cannot reach a ")
    assert found["whole"]["status"] == 0
    assert found["whole"]["finished"] == found["rows"] == 20
    assert found["one killed"]["before"] < 20
    assert found["again"]["status"] == 0
    assert found["same rows"]


def test_a_dask_cluster_that_loses_a_worker_gives_the_same_table() -> None:
    pytest.importorskip("distributed", reason="Dask is not installed: pip install apportion[dask]")
    found = on_a_cluster("dask")
    check(found)
    # What was lost runs again on the other worker.
    assert found["one killed"]["status"] == 0
    assert found["one killed"]["finished"] == 20


def test_a_ray_cluster_that_loses_a_node_is_one_line_and_the_command_goes_on() -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install apportion[ray]")
    found = on_a_cluster("ray")
    check(found)
    assert found["wrong token"]["status"] == 1
    assert "RAY_AUTH_MODE=token" in last_line(found["wrong token"])
    lost = found["one killed"]
    assert lost["status"] == 1
    assert last_line(lost).startswith("apportion: error: The Ray cluster lost ")
    assert "the same call or command goes on" in last_line(lost)
    assert f", {lost['finished']} of them finished before" in found["again"]["out"][0]
