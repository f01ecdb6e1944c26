"""Parts of an installed package, found by the metadata that installers write."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

_PARTS = Path(__file__).with_name("their_parts.py")
_METADATA = "Metadata-Version: 2.1\nName: their-parts\nVersion: 1.0\n"
_ENTRY_POINTS = """
    [apportion.policies]
    their_policy = their_parts:Total
    [apportion.placements]
    their_placement = their_parts:Highest
    [apportion.deciders]
    their_queue = their_parts:their_queue
    their_scheduler = their_parts:their_scheduler
    [apportion.networks]
    their_network = their_parts:half
    [apportion.trace_formats]
    their_format = their_parts:their_format
"""
_USE = """
    import json
    import pandas as pd
    import apportion as ap

    # Two gangs of two GPUs that come together, an hour each where nothing slows them down.
    minutes = ap.read_workload("minutes.csv", format="their_format")
    jobs = pd.DataFrame(
        {"total_steps": [7200.0, 7200.0], "scale_factor": 2, "job_type": "own", "arrival_s": 0.0}
    )
    index = pd.MultiIndex.from_tuples([("own", 2)], names=["job_type", "scale_factor"])
    load = ap.Workload("two", jobs, pd.DataFrame({"v100": [2.0]}, index=index))

    def jct(policy, cluster="v100=2", **settings):
        return ap.simulate(policy, load, cluster, **settings).jobs.jct_s.round(6).tolist()

    placed = ap.simulate("fifo", load, "v100=8", mechanism=ap.Rounds(placement="their_placement"))
    racks = ap.Cluster.of_racks(1, machines_per_rack=1, gpus_per_machine=2, accelerator="v100")
    long = ap.Leases(network="their_network", seconds=1e6)
    speeds = pd.DataFrame({"v100": [1.0, 3.0]})
    print(json.dumps({
        "format": [minutes.jobs.arrival_s.tolist(), minutes.jobs.scale_factor.tolist()],
        "policy": ap.solve("their_policy", speeds, workers={"v100": 1}).X["v100"].round(6).tolist(),
        "placement": sorted(placed.schedule.devices.astype(str).tolist()),
        "queue": jct("their_queue"),
        "network": jct("fifo", mechanism=ap.Rounds(network="their_network")),
        "scheduler": jct("their_scheduler", racks, mechanism=long),
    }))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a process says that has the package on its path."""
    home = tmp_path_factory.mktemp("site")
    shutil.copy(_PARTS, home)
    about = home / "their_parts-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(_METADATA)
    (about / "entry_points.txt").write_text(dedent(_ENTRY_POINTS))
    (home / "minutes.csv").write_text("came,ran,took\n5,90,1\n7.5,30,4\n")
    path = os.pathsep.join([str(home), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    done = subprocess.run(
        [sys.executable, "-c", dedent(_USE)],
        cwd=home,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said


HOUR_S = 3600.0


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ("format", [[0.0, 150.0], [1, 4]]),
        ("policy", [0.0, 1.0]),
        ("placement", ["(4, 5)", "(6, 7)"]),
        ("queue", [2 * HOUR_S, HOUR_S]),
        ("network", [1.5 * HOUR_S, 3 * HOUR_S]),
        ("scheduler", [1.5 * HOUR_S, 3 * HOUR_S]),
    ],
)
def test_a_part_of_an_installed_package_is_used_by_its_name(
    found: dict[str, Any], part: str, expected: object
) -> None:
    assert found[part] == expected
