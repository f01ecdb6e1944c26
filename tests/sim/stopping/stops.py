"""Runs that are stopped, as if killed, each time their state has been written often enough."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from apportion.sim.engine.snapshot import Snapshots

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from apportion.sim import Run


class Stopped(Exception):
    """The run was killed."""


def run_with_stops(simulate: Callable[..., Run], path: Path, *, every: int) -> Run:
    """Run to the end from snapshots at `path`, stopped behind every so many of them."""
    saved, stopped, write = 0, 0, Snapshots.write

    def stops(self: Snapshots, *args: Any) -> Any:
        nonlocal saved
        done = write(self, *args)
        saved += 1
        if saved % every == 0:
            raise Stopped
        return done

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Snapshots, "write", stops)
        while True:
            try:
                run = simulate(snapshot=path, snapshot_seconds=0.0)
            except Stopped:
                stopped += 1
            else:
                break
    assert stopped
    return run


@contextmanager
def stopping() -> Iterator[Callable[[int], None]]:
    """Give what says after how many steps of the loop a run is to be stopped."""
    write, left = Snapshots.write, 0

    def after(steps: int) -> None:
        nonlocal left
        left = steps

    def note(snapshots: Snapshots, *where: Any) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            write(snapshots, *where)
            raise Stopped

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Snapshots, "note", note)
        yield after


def stopped_after(simulate: Callable[..., Run], path: Path, steps: Iterable[int]) -> Run:
    """Run to the end from `path`, each time stopped after so many steps of the loop."""
    with stopping() as after:
        for each in steps:
            after(each)
            with pytest.raises(Stopped):
                simulate(snapshot=path)
        return simulate(snapshot=path)


def assert_equal(one: Run, other: Run) -> None:
    """Compare all tables of two runs to the last bit."""
    tables = [{"jobs": run.jobs, "rounds": run.rounds, **run.tables} for run in (one, other)]
    assert tables[0].keys() == tables[1].keys()
    for name, table in tables[0].items():
        pd.testing.assert_frame_equal(table, tables[1][name], check_exact=True)
    assert one.solves == other.solves
