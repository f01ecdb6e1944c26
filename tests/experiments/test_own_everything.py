"""One run of own parts only: as a script, in cells, in worker processes, by Dask and Ray alike."""

from __future__ import annotations

import runpy
import subprocess
import sys
import tempfile
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import apportion as ap

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_everything.py"
HOUR_S = 3600.0

CELLS = """
import __main__
for place, cell in enumerate(cells):
    exec(compile(cell, f"<cell {place}>", "exec"), vars(__main__))
"""
NOTEBOOK = """
import nbclient, nbformat
book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
nbclient.NotebookClient(book, timeout=200, kernel_name="python3").execute()
"""
SCRIPT = """
import pathlib, subprocess, sys
script = pathlib.Path.home() / "script.py"
script.write_text("".join(cells))
subprocess.run([sys.executable, str(script)], check=True)
"""
WAYS: dict[str, tuple[str, str, str]] = {
    "script": (SCRIPT, "n_jobs=2", ""),
    "cells": (CELLS, "n_jobs=2", ""),
    "notebook": (NOTEBOOK, "n_jobs=2", "nbclient and ipykernel"),
    "dask": (CELLS, 'n_jobs=2, backend="dask"', "distributed"),
    "ray": (CELLS, 'n_jobs=2, backend="ray"', "ray"),
}
"""How the example runs, how `compare` is told to, and what has to be installed."""


@cache
def example() -> dict[str, Any]:
    """Run the example here; return what it leaves."""
    return runpy.run_path(str(EXAMPLE), run_name="__main__")


def most_above(run: ap.Run, caps_w: Any) -> float:
    """Return the most watts above the cap between any two events of a run, and full hours."""
    stays = run.schedule
    watts = stays["job"].map(run.jobs["power_w"]).to_numpy(float)
    start_s, end_s = stays["start_s"].to_numpy(), stays["end_s"].to_numpy()
    times = np.unique([*start_s, *end_s, *np.arange(0, end_s.max(), HOUR_S)])
    drawn = [
        watts[(start_s <= now_s) & (now_s < end_s)].sum() - caps_w(now_s)
        for now_s, _ in pairwise(times)
    ]
    return float(max(drawn))


@pytest.mark.thorough
def test_the_cap_holds_in_every_round_and_every_part_counts() -> None:
    left = example()
    own, other = left["compared"].runs.values()
    policy, mechanism, links = left["PowerByHour"](), left["TenMinutes"](), left["SlowLinks"]()
    assert (own.policy, own.settings["mechanism"]) == (policy.name, mechanism.name)
    assert own.settings["network"] == links.name
    assert most_above(own, policy.cap_w) <= 1e-6
    assert most_above(other, policy.cap_w) > 1000  # or nothing would have to be kept
    early = own.schedule[own.schedule["end_s"] < own.schedule["end_s"].max() / 2]
    assert (early["start_s"] % 600 == 0).all()
    jobs, throughputs = left["jobs"], left["throughputs"]
    for run in (own, other):
        ap.check_schedule(run, left["workload"], left["racks"], network=links)
        assert run.jobs["power_w"].tolist() == jobs["power_w"].tolist()
        steps = pd.Series(0.0, index=jobs.index)
        for stay in run.schedule.itertuples():
            job = jobs.loc[stay.job]
            speed = throughputs.loc[(job["job_type"], job["scale_factor"]), stay.accelerator]
            slower = 1 + 0.1 * (len(stay.machines) - 1)
            steps[stay.job] += speed / slower * (stay.end_s - stay.start_s)
        np.testing.assert_allclose(steps, jobs["total_steps"], rtol=1e-6)
    assert max(len(machines) for machines in other.schedule["machines"]) > 1


def only_loopback(*words: str) -> list[str]:
    """Make a command that sees no network but loopback."""
    return ["unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", *words]


@pytest.mark.parametrize(
    "way",
    [
        pytest.param(w, marks=pytest.mark.slow if w != "script" else pytest.mark.thorough)
        for w in WAYS
    ],
)
def test_wherever_it_runs_the_results_are_the_same(way: str, tmp_path: Path) -> None:
    code, told, needs = WAYS[way]
    missing = [each for each in needs.split(" and ") if each and find_spec(each) is None]
    if missing:
        pytest.skip(f"{' and '.join(missing)} not installed")
    found = tmp_path / "found"
    text = EXAMPLE.read_text(encoding="utf-8")
    assert text.count("n_jobs=1") == 1
    text = text.replace("n_jobs=1", told)
    text += f"\n\npd.to_pickle((compared.jobs(), compared.schedule()), {str(found)!r})\n"
    cells = [f"{cell}\n\n\n" for cell in text.split("\n\n\n")]
    with tempfile.TemporaryDirectory(prefix="c") as home:  # Ray's sockets need a short path
        words = ["timeout", "300", "env", f"HOME={home}", "OMP_NUM_THREADS=1"]
        words += [sys.executable, "-c", f"cells = {cells!r}\n{code}"]
        listens = needs != ""
        if listens and subprocess.run(only_loopback("true"), check=False).returncode:
            pytest.skip("network namespaces are impossible here")
        done = subprocess.run(
            only_loopback(*words) if listens else words, capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, done.stderr
    compared = example()["compared"]
    here, there = (compared.jobs(), compared.schedule()), pd.read_pickle(found)
    for mine, theirs in zip(here, there, strict=True):
        pd.testing.assert_frame_equal(mine, theirs)
