"""The largest common share of given demands, where every option draws on one resource.

The interior point of `apportion.policies.solving.solvers.arrow_interior_point` takes the arrays as
they are; what is found is as `apportion.policies.solving.worst_off.common_share` says.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from apportion.policies.solving.certificate import make_feasible
from apportion.policies.solving.second_stage import evenness, relative_throughput
from apportion.policies.solving.solvers.arrow_active_sets import exact_arrow
from apportion.policies.solving.solvers.arrow_corner import least_arrow_prices, only_corner
from apportion.policies.solving.solvers.arrow_interior_point import further, solve_arrow
from apportion.policies.solving.solvers.arrow_kkt import ArrowProgram
from apportion.policies.solving.worst_off.common_share import (
    HAIR,
    DeclaredShare,
    SharePoint,
    meeting,
    reached,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from apportion.policies.instance import Instance
    from apportion.policies.solving.solvers.arrow_kkt import ArrowPoint
    from apportion.types import Floats


_EVEN = 1e-6
"""Weight of evenness against throughput, both relative, where one program sees to both."""
_ROUGH, _FEW = 1e-7, 6
"""Relative error at which that program nearly always tells what holds: few sets are to be tried."""
_POOR = 1e-6
"""Relative error from which on what was chosen is not used."""
_DECLARED = 4000
"""Most jobs whose choice a simplex method is asked for where active sets do not settle."""


class ArrowShare:
    """The problem for the interior point, where every option draws on one resource."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance

    @staticmethod
    def fits(instance: Instance) -> bool:
        """Whether rows are single jobs and options draw on one resource each, that there is of."""
        used = _draws_on(instance)
        return bool(
            instance.solo
            and (used.sum(axis=1) == 1).all()
            and (instance.capacity[used.any(axis=0)] > 0).all()
            and (instance.fastest_throughput > 0).all()
        )

    @cached_property
    def _program(self) -> ArrowProgram:
        instance = self._instance
        resource = _draws_on(instance).argmax(axis=1)
        _, place = np.unique(resource, return_inverse=True)
        usage = _held_cells(instance, resource) * instance.row_count
        nothing = np.zeros(instance.jobs)
        return ArrowProgram(
            throughput=np.ascontiguousarray((instance.throughput / self._fastest[:, None]).T),
            usage=usage / instance.capacity[resource][:, None],
            resource=place,
            base=nothing,
            rate=nothing,
        )

    @property
    def _fastest(self) -> Floats:
        return np.asarray(self._instance.throughput.max(axis=1), dtype=float)

    def optimum(self, demand: Floats, *, alone: bool = True) -> SharePoint:
        """Find the largest share."""
        self._demand, self._alone = demand, alone
        instance, program = self._instance, self._program
        rate = demand / self._fastest
        unit = float(rate.max())
        rate = rate / unit
        self._posed = replace(program, rate=rate, reward=float(rate.sum()))
        point = solve_arrow(self._posed)
        scale = float(rate @ point.need)
        need, price = point.need / scale, point.price / scale
        worth = program.throughput * need - program.usage * price[program.resource][:, None]
        bound = float(price.sum() + np.maximum(worth.max(axis=0), 0.0).sum()) / unit
        self._target = demand * min(bound, 1.0)
        X = meeting(instance, make_feasible(point.x.T, instance), self._target)
        self._point, self._all_met = point, alone and bound >= 1.0 - HAIR
        self._X, share = X, min(reached(instance, X, demand), 1.0)
        prices = self._of_resources(price) / unit
        dual = need / self._fastest / unit
        prices = np.zeros_like(prices) if self._all_met else prices  # no capacity is short
        return SharePoint(X, share, min(bound, 1.0), dual, prices, "arrow")

    def _of_resources(self, worth: Floats) -> Floats:
        """Return the price of a unit of each resource from the worth of all units in use."""
        capacity = self._instance.capacity
        used = _draws_on(self._instance).any(axis=0)
        prices = np.zeros(capacity.size)
        prices[used] = worth / capacity[used]
        return prices

    def prices_at_kink(self, rise: Callable[[], Floats]) -> Floats | None:
        """Choose as `apportion.policies.solving.solvers.kinks` says."""
        if self._all_met:
            return None
        used = _draws_on(self._instance).any(axis=0)
        worth = least_arrow_prices(
            self._program,
            self._point,
            lambda: rise() / self._fastest,
            self._instance.capacity[used],
        )
        return None if worth is None else self._of_resources(worth)

    def chosen(self) -> Floats:
        """Spend and even out in one program, then exactly, by what holds at its optimum.

        Where no two jobs are alike there is nearly always one optimum, and nothing to choose.
        """
        instance, rate = self._instance, self._target / self._fastest
        if not self._all_met:
            corners = (only_corner(self._posed, at) for at in further(self._posed, self._point))
            corner = next((each for each in corners if each is not None), None)
            if corner is not None:
                return meeting(instance, make_feasible(corner.T, instance), self._target)
        gain, squares = relative_throughput(instance).T, evenness(instance).T
        posed = replace(
            self._program, rate=rate, gain=gain / gain.mean(), squares=squares / squares.mean()
        )
        both = replace(posed, base=rate * (1 - HAIR), rate=0 * rate, squares=posed.squares * _EVEN)
        point = solve_arrow(both, _ROUGH)
        x = self._exact(posed, point, _FEW)
        if x is None:
            point = solve_arrow(both, start=point)
            x = self._exact(posed, point)
        if x is None:
            return self._near(point)
        return meeting(instance, make_feasible(x.T, instance), self._target)

    def _exact(self, posed: ArrowProgram, point: ArrowPoint, *rounds: int) -> Floats | None:
        """Choose by what holds at a point; ``None`` if that cannot be told."""
        if self._all_met:
            return exact_arrow(posed, (point,), 1.0, *rounds)
        return exact_arrow(posed, (self._point, point), None, *rounds)

    def _near(self, point: ArrowPoint) -> Floats:
        """Ask a simplex method, or where that would take long, take what a point says."""
        instance = self._instance
        if instance.jobs <= _DECLARED:
            declared = DeclaredShare(instance, "auto")
            declared.optimum(self._demand, alone=self._alone)
            return declared.chosen()
        if point.error > _POOR:
            return self._X
        return meeting(instance, make_feasible(point.x.T, instance), self._target)


def _draws_on(instance: Instance) -> NDArray[np.bool_]:
    """Whether any row holds a resource under an option, shape (options, resources)."""
    if instance.own_usage is None:
        return np.equal.outer(instance.option_accelerator, np.arange(instance.capacity.size))
    cells = np.bincount(
        instance.usage.indices,
        weights=instance.usage.data != 0,
        minlength=instance.options * instance.capacity.size,
    )
    return (cells > 0).reshape(instance.options, instance.capacity.size)


def _held_cells(instance: Instance, resource: NDArray[np.intp]) -> Floats:
    """Units of its resource that each cell holds, shape (options, rows)."""
    columns = np.arange(instance.options) * instance.capacity.size + resource
    return np.ascontiguousarray(instance.usage[:, columns].toarray().T)
