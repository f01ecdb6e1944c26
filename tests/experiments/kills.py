"""Comparisons and sweeps that are killed at random times and started again, until they are done.

``python tests/experiments/kills.py compare|sweep KILLS [SEED]`` prints what it found. It forks, so
that kills hit the work and not the loading of modules.
"""

from __future__ import annotations

import csv
import io
import json
import os
import shlex
import signal
import sys
import tempfile
import time
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np

from apportion.cli import main as command

CLOCKS = {"policy_seconds", "wall_seconds"}
WORDS = {
    "compare": "compare --policies fifo,isolated,makespan --cluster v100=4,k80=4 "
    "--generate jobs=10,scale_factors=single,jobs_per_hour=60 --jobs 1 --out",
    "sweep": "sweep --policies fifo,isolated --cluster v100=4,k80=4 --seeds "
    "0,1,2 --loads 0.5,1 --generate jobs=8,scale_factors=single,jobs_per_hour=60 --jobs 1 --out",
}
LATE = 0.4
"""Share of the kills that come at the end, where files are written."""


def results(folder: Path) -> dict[str, Any]:
    """Return the files of a folder by name, without what clocks have measured."""
    found: dict[str, Any] = {}
    for file in sorted(folder.iterdir()):
        if file.name == "run.json":
            record = json.loads(file.read_text())
            for row in record["summary"]:
                for clock in CLOCKS:
                    row.pop(clock)
            found[file.name] = record
        elif file.suffix == ".csv":
            with file.open(newline="") as stream:
                rows = list(csv.DictReader(stream))
            found[file.name] = [
                {name: cell for name, cell in row.items() if not name.startswith(tuple(CLOCKS))}
                for row in rows
            ]
        else:
            # Lines of the store are in the order in which they came, the page shows seconds.
            exact = file.is_file() and file.suffix not in (".jsonl", ".html")
            found[file.name] = file.read_bytes() if exact else None
    if (folder / "jobs.csv").exists():
        found["jobs.csv"] = (folder / "jobs.csv").read_bytes()
    return found


def forked(words: list[str], kill_after_s: float | None) -> bool:
    """Run a command in a fork of this process; return whether it came to its end."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            status = command(words)
        finally:
            os._exit(status)
    if kill_after_s is not None:
        time.sleep(kill_after_s)
        os.kill(pid, signal.SIGKILL)
    _, state = os.waitpid(pid, 0)
    if os.WIFEXITED(state):
        assert os.WEXITSTATUS(state) == 0
        return True
    assert os.WTERMSIG(state) == signal.SIGKILL
    return False


def killed(what: str, kills: int, seed: int, folder: Path) -> list[str]:
    """Kill a command so often, and return what differs from one that was left alone.

    A command that is done before it is killed begins anew in another folder.
    """
    words, rng = shlex.split(WORDS[what]), np.random.default_rng(seed)
    with redirect_stdout(io.StringIO()):
        command([*words, str(folder / "warm")])  # loads in this process what all forks then have
    started = time.monotonic()
    forked([*words, str(folder / "whole")], None)
    whole_s = time.monotonic() - started
    expected, wrong, done, number = results(folder / "whole"), [], 0, 0
    while done < kills:
        out, number = folder / str(number), number + 1
        while True:
            share = rng.uniform(0.8, 1.0) if rng.random() < LATE else rng.uniform(0.0, 1.0)
            if forked([*words, str(out)], share * whole_s if done < kills else None):
                break
            done += 1
        found = results(out)
        wrong += [f"{out}: {name}" for name in expected if found.get(name) != expected[name]]
        wrong += [f"{out}: {name} is left" for name in found.keys() - expected.keys()]
    return wrong


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="kills-") as name:
        what, kills, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if sys.argv[3:] else 0
        begun = time.monotonic()
        wrong = killed(what, kills, seed, Path(name))
        folders = sum(each.is_dir() for each in Path(name).iterdir()) - 2
        seconds = time.monotonic() - begun
        print(
            f"{what}: {kills} kills over {folders} outputs in {seconds:.0f} s, {len(wrong)} wrong"
        )
        print(*wrong, sep="\n")
