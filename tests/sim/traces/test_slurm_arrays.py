"""Slurm's expressions for the tasks of a job array."""

from __future__ import annotations

import pytest

from apportion.sim.traces.slurm_arrays import array_tasks


@pytest.mark.parametrize(
    ("text", "tasks", "limit"),
    [
        ("1-40%8", list(range(1, 41)), 8),
        ("0-15:4", [0, 4, 8, 12], None),
        ("7", [7], None),
        ("5,1-3,2", [1, 2, 3, 5], None),
        ("1-4%0", [1, 2, 3, 4], None),
        ("123_[4-9%2]", [4, 5, 6, 7, 8, 9], 2),
        ("[4-9:3]", [4, 7], None),
        ("123_7", [7], None),
    ],
)
def test_tasks_and_how_many_run_at_once(text: str, tasks: list[int], limit: int | None) -> None:
    assert array_tasks(text) == (tasks, limit)
