"""Runs that are stopped, as if killed, each time their state has been written often enough."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from apportion.sim.engine.snapshot import Snapshots

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from apportion.sim import Run

__all__ = ["Stopped", "run_with_stops"]


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
