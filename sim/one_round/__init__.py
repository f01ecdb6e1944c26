"""One round of any policy or scheduler, from a state that users tell."""

from __future__ import annotations

from apportion.annotations import open_doors
from apportion.sim.one_round.decision import RoundDecision
from apportion.sim.one_round.solve_round import solve_round

__all__ = ["RoundDecision", "solve_round"]

open_doors(globals())
