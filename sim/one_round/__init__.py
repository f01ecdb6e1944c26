"""One round of any policy or scheduler, from a state that users tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.faces import lazily

if TYPE_CHECKING:
    from apportion.sim.one_round.asked import solve_round as solve_round
    from apportion.sim.one_round.decision import RoundDecision as RoundDecision


if not TYPE_CHECKING:  # or a checker would take any name for one of these
    __getattr__ = lazily(__name__)
