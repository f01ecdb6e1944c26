"""Power cones of many sides as chains of cones with two, of which interior points solve more.

``s_1**p_1 ... s_k**p_k >= |w|`` says the same as ``s_1**a s_2**(1 - a) >= z_1`` and
``z_1**b s_3**(1 - b) >= z_2`` and so on up to ``>= |w|``, with ``a = p_1 / (p_1 + p_2)``,
``b = (p_1 + p_2) / (p_1 + p_2 + p_3)``: each link z is one more column.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from apportion.policies.solving.cone import Cone

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.policies.solving.cone import ConeProgram, Point

__all__ = ["PowerChain"]


@dataclass(frozen=True, eq=False)
class PowerChain:
    """A program with chains, and where its rows were in the other, below 0 for those of links."""

    program: ConeProgram
    row: NDArray[np.intp]

    @classmethod
    def of(cls, program: ConeProgram) -> PowerChain | None:
        """Take the power cones of a program apart; ``None`` if none has more than two sides."""
        if all(len(cone.powers) <= 2 for cone in program.cones):
            return None
        start, links = program.linear, 0
        cones, rows = [], list(range(start))
        for cone in program.cones:
            sides, powers = list(range(start, start := start + cone.size)), cone.powers
            while len(powers) > 2:
                both = powers[0] + powers[1]
                cones.append(Cone("power", 3, powers=(powers[0] / both, powers[1] / both)))
                rows += [*sides[:2], ~links]
                sides, powers = [~links, *sides[2:]], (both, *powers[2:])
                links += 1
            cones.append(cone._replace(size=len(sides), powers=powers))
            rows += sides
        row = np.array(rows)
        kept, of_link = np.flatnonzero(row >= 0), np.flatnonzero(row < 0)
        chosen = sparse.csr_array(
            (np.ones(kept.size), (kept, row[kept])), shape=(row.size, program.b.size)
        )
        linked = sparse.csr_array(
            (-np.ones(of_link.size), (of_link, ~row[of_link])), shape=(row.size, links)
        )
        chained = replace(
            program,
            P=sparse.csc_array(sparse.block_diag([program.P, sparse.csc_array((links, links))])),
            c=np.append(program.c, np.zeros(links)),
            A=sparse.csc_array(sparse.hstack([chosen @ program.A, linked])),
            b=np.asarray(chosen @ program.b, dtype=float),
            cones=tuple(cones),
        )
        return cls(chained, row)

    def back(self, point: Point, program: ConeProgram) -> Point:
        """Return a point of the chain's program as one of the program it was made of."""
        y = np.zeros(program.b.size)
        y[self.row[self.row >= 0]] = point.y[self.row >= 0]
        return point.at(point.x[: program.c.size], y)
