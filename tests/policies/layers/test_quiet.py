"""Nothing is printed by solvers, whatever their version says of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.policies.solving.highs import SIMPLEX, quiet_solver

if TYPE_CHECKING:
    import pytest


def test_solvers_are_made_without_a_word(capfd: pytest.CaptureFixture[str]) -> None:
    """HiGHS writes to the file descriptor, past the standard output of Python."""
    solver = quiet_solver(SIMPLEX)
    assert solver.getOptionValue("output_flag")[1] is False
    assert solver.getOptionValue("solver")[1] == "simplex"
    assert capfd.readouterr() == ("", "")
