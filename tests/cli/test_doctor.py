from __future__ import annotations

import sys
from importlib.metadata import version
from typing import TYPE_CHECKING

from tests.in_process import run_command

from apportion import __version__

if TYPE_CHECKING:
    import pytest


def test_the_doctor_says_what_is_here_and_that_it_works() -> None:
    said = run_command(["doctor"]).out
    assert said.startswith(f"apportion {__version__}, Python {sys.version.split()[0]}")
    rows = [line.split() for line in said.splitlines()]
    for package in ("cvxpy", "highspy", "numpy"):
        assert [package, version(package)] in rows
    assert "HIGHS" in said
    assert "CLARABEL" in said
    assert "all is well" in said
    assert max(map(len, said.splitlines())) <= 100


def test_the_doctor_names_the_extra_of_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "apportion.cli.installed.find_spec", lambda name: None if name == "ray" else 1
    )
    assert "missing ray: pip install 'apportion[ray]'" in run_command(["doctor"]).out
