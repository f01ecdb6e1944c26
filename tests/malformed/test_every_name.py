"""Every public name with arguments of any kind, in a process with little time and memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.malformed.every_name import public_calls

ROOT = Path(__file__).parents[2]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("first", "last"), [pytest.param(0, 300), pytest.param(300, 5000, marks=pytest.mark.slow)]
)
def test_every_name_gives_a_result_or_an_error_of_the_package(first: int, last: int) -> None:
    """No other error, and no call that does not end or takes all memory."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    made = subprocess.run(
        [sys.executable, "-m", "tests.malformed.every_name", str(first), str(last)],
        cwd=ROOT,
        env={**os.environ, **one},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [json.loads(line) for line in made.stdout.splitlines()]
    assert lines, made.stderr
    assert lines[-1] == {"calls": last - first}, made.stderr
    assert lines[:-1] == []


def test_the_names_that_were_raw_before_are_among_them() -> None:
    names = {name for name, _ in public_calls()}
    assert len(names) > 200
    assert names >= {"apportion.reallocation_factor", "apportion.ElasticWorkload"}
    assert names >= {"apportion.elastic.Goodput", "apportion.elastic.generate_requests"}
