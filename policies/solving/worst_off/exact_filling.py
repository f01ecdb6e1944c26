"""Water filling without rounding errors, where those of floats would show in the levels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.policies.solving.solvers.exact_simplex import ExactSimplex
from apportion.policies.solving.solvers.fixed_point import fixed, floats, product
from apportion.policies.solving.worst_off.demand_scaling import power_of_two

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.policies.solving.compiled import Compiled
    from apportion.policies.solving.solvers.fixed_point import Fixed
    from apportion.types import Bools, Floats

    Ints = NDArray[np.integer[Any]]


class ExactFill:
    """Steps of water filling, each an exact linear program that begins where the last one ended.

    Parameters
    ----------
    compiled
        The program of a step, scaled by powers of two.
    rows
        Its demands, shape (jobs,).
    step
        Its column that all demands rise by.
    """

    def __init__(self, compiled: Compiled, rows: Ints, step: int) -> None:
        self._compiled, self._rows, self._step = compiled, rows, step
        self._simplex = ExactSimplex(compiled.program, step)
        self._unit = compiled.row[rows]
        self.binding, self.steps = np.zeros(rows.size, dtype=bool), 0

    def rise(self, base: Fixed, rate: Floats, active: Bools) -> tuple[Fixed, float]:
        """Raise all levels from `base` at their rates as far as they go."""
        self.steps += 1
        program, simplex, unit = self._compiled.program, self._simplex, self._unit
        fastest = power_of_two(float((rate * unit).max()))
        entries = np.zeros(program.b.size)
        entries[self._rows] = rate * unit / fastest
        right = fixed(program.b)
        right[self._rows] = -product(base, fixed(unit))
        most, dual = simplex.maximise(entries[simplex.row], right[simplex.row])
        of_row = np.zeros(program.b.size, dtype=object)
        of_row[simplex.row] = dual
        self.binding = active & (rate > 0) & (of_row[self._rows] > 0)
        return product(fixed(rate / fastest), most), float(floats(most)[0]) / fastest

    def keep(self) -> None:
        """Build upon the last step: there is nothing to remember."""

    def doubt(self, level: Floats) -> float:
        """Return zero: what bits are cut off is beyond any float."""
        return 0.0

    def allocation(self) -> Floats:
        """Return the allocation of the last step, which the problem's X takes."""
        return self._compiled.X_of(floats(self._simplex.x))
