"""Variables that policies add to those of every problem."""

from __future__ import annotations

from dataclasses import dataclass

import cvxpy as cp


@dataclass(frozen=True, eq=False)
class OwnVariable:
    """A variable of a policy's own.

    Attributes
    ----------
    variable
        The variable; continuous here, `boolean` is left to who solves.
    asked
        Shape, nonneg and boolean, as asked for.
    limits
        Constraints that keep it in its range.
    """

    variable: cp.Variable
    asked: tuple[tuple[int, ...], bool, bool]
    limits: list[cp.Constraint]

    @classmethod
    def of(cls, name: str, shape: tuple[int, ...], nonneg: bool, boolean: bool) -> OwnVariable:
        """Make a variable."""
        variable = cp.Variable(shape, name=name)
        limits: list[cp.Constraint] = []
        if nonneg or boolean:
            limits.append((variable >= 0).set_label(f"{name} >= 0"))
        if boolean:
            limits.append((variable <= 1).set_label(f"{name} <= 1"))
        return cls(variable, (shape, nonneg, boolean), limits)

    @property
    def nonneg(self) -> bool:
        """Whether it is at least 0."""
        return self.asked[1]

    @property
    def boolean(self) -> bool:
        """Whether it is 0 or 1."""
        return self.asked[2]
