"""What was measured of elastic jobs, on each type."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from apportion.estimators.goodput import MeasuredApplication
    from apportion.types import Bools, Floats


class Profiles:
    """The applications of jobs, each with what was measured of it on each type.

    A type on which an application was measured has its own profile; any other has that of the
    application itself, made faster or slower by the ratio of the types.

    Parameters
    ----------
    applications
        Of each job.
    accelerators
        Names of the types.
    speed_on
        How fast a type is relative to the one on which applications were measured, by its name.

    Attributes
    ----------
    relative
        How many times as fast as its profile each job is on each type, shape (jobs, types).
    """

    def __init__(
        self,
        applications: Sequence[MeasuredApplication],
        accelerators: Sequence[str],
        speed_on: Callable[[str], float],
    ) -> None:
        self.applications, types = list(applications), len(accelerators)
        distinct = dict.fromkeys(self.applications)
        self._on = {
            each: [each.on_types.get(name, each) for name in accelerators] for each in distinct
        }
        ratio = [speed_on(name) for name in accelerators]
        by_application = {
            each: [ratio[kind] if on is each else 1.0 for kind, on in enumerate(ons)]
            for each, ons in self._on.items()
        }
        rows = [by_application[each] for each in self.applications]
        self.relative: Floats = np.array(rows, dtype=float).reshape(-1, types)
        self._groups = {each: _grouped(ons) for each, ons in self._on.items()}

    def alike(self) -> Profiles:
        """Return the same as if all types were the one that applications were measured on."""
        plain = {each: replace(each, on_types={}) for each in dict.fromkeys(self.applications)}
        names = [""] * self.relative.shape[1]
        return Profiles([plain[each] for each in self.applications], names, lambda _: 1.0)

    def on(self, job: int, kind: int) -> MeasuredApplication:
        """Return the profile of a job on a type."""
        return self._on[self.applications[job]][kind]

    def groups(self, job: int) -> list[tuple[MeasuredApplication, Bools]]:
        """Return the different profiles of a job, and on which types each holds."""
        return self._groups[self.applications[job]]


def _grouped(ons: Sequence[MeasuredApplication]) -> list[tuple[MeasuredApplication, Bools]]:
    return [(each, np.array([on is each for on in ons])) for each in dict.fromkeys(ons)]
