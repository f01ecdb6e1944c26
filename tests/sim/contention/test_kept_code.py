"""Compiled code that is kept, and forgotten when any source file beside it is newer."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from apportion.sim.contention.jit import _forget_older, jit_entry

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(("compiled_at", "left"), [(50, 0), (150, 2)])
def test_what_is_older_than_a_source_file_is_forgotten(
    tmp_path: Path, compiled_at: int, left: int
) -> None:
    (tmp_path / "__pycache__").mkdir()
    for name, time_s in (("a.py", 10), ("b.py", 100)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (time_s, time_s))
    for name in ("a.f-1.py311.nbi", "a.f-1.py311.1.nbc"):
        (tmp_path / "__pycache__" / name).touch()
        os.utime(tmp_path / "__pycache__" / name, (compiled_at, compiled_at))
    (tmp_path / "__pycache__" / "a.pyc").touch()
    _forget_older(tmp_path)
    assert len(list((tmp_path / "__pycache__").glob("*.nb*"))) == left
    assert (tmp_path / "__pycache__" / "a.pyc").exists()


def test_where_nothing_can_be_kept_code_is_compiled_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caching = pytest.importorskip("numba.core.caching")
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    assert jit_entry(_twice)(1.5) == 3.0


def _twice(x: float) -> float:
    return 2.0 * x
