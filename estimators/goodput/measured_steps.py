"""Seconds of training steps, by placement and batch: as measured, and by a model instead."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from scipy.interpolate import LinearNDInterpolator

from apportion.annotations import explained
from apportion.checks import mapping, number, whole
from apportion.errors import InputError, written
from apportion.estimators.goodput.step_times import StepObservations
from apportion.table_checks import check_columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from apportion.estimators.goodput.step_times import StepTimes
    from apportion.types import Floats, Int64s


_KEYS = ["nodes", "gpus", "local_batch"]
_TIMES = ["step_s", "synchronisation_s"]


class StepSeconds(NamedTuple):
    """Seconds of a step, of them those of its synchronisation, and whether it was measured.

    What was not measured is interpolated between other placements.
    """

    step_s: float
    synchronisation_s: float
    measured: bool


class AnySteps(Protocol):
    """How long the steps of an application take; one's own kind needs `at` only.

    It may have beside it, and what it lacks is refused where it is asked for:

    - ``observations()``, steps to fit a model to, as `StepObservations`;
    - ``by_gpus(gpus)``, steps/s with numbers of GPUs, 0 where it cannot run, if neither machines
      nor batches count: then no model is fitted, and jobs believe what is true;
    - ``plain()``, what `ElasticWorkload.save` writes: that of one of the kinds of the package.
    """

    def at(self, placement: Sequence[int], local_batch: float) -> StepSeconds:
        """Return the seconds of a step on so many GPUs on each node, with a batch per GPU.

        Raises
        ------
        InputError
            Where it cannot run, or it is not known how long it takes: then a model is fitted.
        """
        ...


class MeasuredSteps:
    """Seconds of a step by placement and batch per GPU, of one application on one type.

    Parameters
    ----------
    name
        Of the application, for errors.
    placements
        Columns placement (GPUs on each node as digits, e.g. ``"44"``), local_batch, step_s and
        synchronisation_s (part of step_s).
    larger
        Measurements by number of nodes and GPUs only: columns nodes, gpus, local_batch, step_s and
        synchronisation_s.

    Raises
    ------
    InputError
        For a placement that is not one, and a synchronisation that is longer than its step.
    """

    @explained
    def __init__(self, name: str, placements: pd.DataFrame, larger: pd.DataFrame) -> None:
        self.name = name
        check_columns("The placements", placements, ("placement", "local_batch", *_TIMES))
        check_columns("The larger gangs", larger, ("nodes", "gpus", "local_batch", *_TIMES))
        gangs = [_digits(name, text) for text in placements["placement"]]
        exact = placements.assign(
            nodes=[len(gang) for gang in gangs], gpus=[sum(gang) for gang in gangs]
        )
        for rows in (placements, larger):
            wrong = ~((rows["synchronisation_s"] <= rows["step_s"]) & (rows["step_s"] > 0))
            if wrong.any():
                raise InputError(
                    f"The profile of {name!r} has a step of {rows.loc[wrong, 'step_s'].iloc[0]} s "
                    f"with a synchronisation of {rows.loc[wrong, 'synchronisation_s'].iloc[0]} s."
                )
        self._exact, self._larger = exact, larger
        self._curves = self._by_placement(gangs)

    def _by_placement(self, gangs: list[tuple[int, ...]]) -> dict[tuple[int, ...], Floats]:
        """Rows of each placement, by batch: shape (3, batches)."""
        table = self._exact[["local_batch", *_TIMES]].to_numpy(dtype=np.float64)
        found: dict[tuple[int, ...], list[Floats]] = {}
        for gang, row in zip(gangs, table, strict=True):
            found.setdefault(_turned(gang), []).append(row)
        return {gang: np.array(sorted(rows, key=lambda r: r[0])).T for gang, rows in found.items()}

    def plain(self) -> dict[str, Any]:
        """Return the tables `placements` and `larger` that it was made of, as JSON has them."""
        tables = {"placements": self._exact.drop(columns=["nodes", "gpus"]), "larger": self._larger}
        return {
            name: {str(column): values.tolist() for column, values in each.items()}
            for name, each in tables.items()
        }

    @property
    def local_range(self) -> tuple[int, int]:
        """Smallest and largest batch per GPU of any placement."""
        batches = self._exact["local_batch"]
        return int(batches.min()), int(batches.max())

    @property
    def placements(self) -> tuple[tuple[int, ...], ...]:
        """Placements that were measured, turned so that they begin with the fewest GPUs."""
        return tuple(self._curves)

    def at(self, placement: Sequence[int], local_batch: float) -> StepSeconds:
        """Seconds of a step on so many GPUs on each node.

        A measured placement (turned like a ring, nodes are alike) is interpolated between batches;
        any other between numbers of nodes, GPUs and batches, with more than 16 nodes as 16.

        Raises
        ------
        InputError
            For a batch that no measurement of the placement reaches, as one beyond the memory, and
            a placement outside of all that were measured.
        """
        gang = tuple(int(gpus) for gpus in placement if gpus)
        if not gang or min(gang) < 0:
            raise InputError(f"A placement is {written(placement)}; it must have a GPU.")
        curve = self._curves.get(_turned(gang))
        if curve is None:
            return self._between(gang, local_batch)
        if not curve[0, 0] <= local_batch <= curve[0, -1]:
            raise InputError(
                f"{self.name!r} was measured on placement {_text(gang)} with {curve[0, 0]:g} to "
                f"{curve[0, -1]:g} samples per GPU, not with {local_batch:g}."
            )
        step, synchronisation = (np.interp(local_batch, curve[0], row) for row in curve[1:])
        return StepSeconds(float(step), float(synchronisation), measured=True)

    def _between(self, gang: tuple[int, ...], local_batch: float) -> StepSeconds:
        nodes, between = min(len(gang), int(self._all[_KEYS[0]].max())), self._interpolator
        step = synchronisation = np.nan
        if between is not None:
            step, synchronisation = between(np.array([nodes, sum(gang), local_batch], float))[0]
        if not np.isfinite(step):
            raise InputError(
                f"{self.name!r} was not measured on placement {_text(gang)} with {local_batch:g} "
                f"samples per GPU, nor on larger and smaller ones to interpolate between."
            )
        return StepSeconds(float(step), float(synchronisation), measured=False)

    @cached_property
    def _all(self) -> pd.DataFrame:
        """Means by nodes, GPUs and batch of all that was measured."""
        means = self._exact.groupby(_KEYS, as_index=False)[_TIMES].mean()
        columns = [*_KEYS, *_TIMES]
        rows = np.vstack([means[columns].to_numpy(float), self._larger[columns].to_numpy(float)])
        return (
            means.iloc[:0]
            .reindex(range(len(rows)))
            .assign(**{name: rows[:, place] for place, name in enumerate(columns)})
        )

    @cached_property
    def _interpolator(self) -> LinearNDInterpolator | None:
        """Interpolate between all that was measured; nothing lies between points in one plane.

        So it is where every machine had one GPU, or where there was one batch only.
        """
        points = self._all[_KEYS].to_numpy()
        if np.linalg.matrix_rank(points - points[:1]) < points.shape[1]:
            return None
        return LinearNDInterpolator(points, self._all[_TIMES].to_numpy())

    def observations(self) -> StepObservations:
        """Everything that was measured, to fit `StepTimes` to."""
        every = self._all
        return StepObservations(
            gpus=every["gpus"].to_numpy(),
            nodes=every["nodes"].to_numpy(),
            local_batch=every["local_batch"].to_numpy(),
            gradient_s=(every["step_s"] - every["synchronisation_s"]).to_numpy(),
            step_s=every["step_s"].to_numpy(),
        )


def _digits(name: str, text: object) -> tuple[int, ...]:
    digits = str(text)
    if not (digits.isascii() and digits.isdecimal() and "0" not in digits):
        raise InputError(
            f"The profile of {name!r} has a placement {written(text)}; it must be the GPUs on each "
            f"node as digits from 1 to 9, e.g. 44."
        )
    return tuple(int(digit) for digit in digits)


def _turned(gang: tuple[int, ...]) -> tuple[int, ...]:
    """Return the least of a placement turned like a ring."""
    return min(gang[start:] + gang[:start] for start in range(len(gang)))


def _text(gang: tuple[int, ...]) -> str:
    return "+".join(map(str, gang))


_GANGS = ((1, 1), (2, 1), (3, 1), (4, 1), (2, 2), (4, 2), (8, 2), (16, 4), (32, 8))


@dataclass(frozen=True, eq=False)
class ModelledSteps:
    """Seconds of a step by placement and batch per GPU, where `StepTimes` are the truth.

    Parameters
    ----------
    name
        Of the application, for errors.
    times
        What is true of its steps.
    local_most
        Largest batch per GPU.

    Raises
    ------
    InputError
        For a batch that is not a whole number >= 1.
    """

    name: str
    times: StepTimes
    local_most: int

    def __post_init__(self) -> None:
        whole("The largest batch per GPU", self.local_most, 1)

    def plain(self) -> dict[str, Any]:
        """Return the model and the largest batch, as JSON has them."""
        times = {name: float(value) for name, value in asdict(self.times).items()}
        return {"model": times, "local_most": self.local_most}

    def at(self, placement: Sequence[int], local_batch: float) -> StepSeconds:
        """Seconds of a step on so many GPUs on each node.

        Raises
        ------
        InputError
            For a placement without GPUs.
        """
        gang = [int(gpus) for gpus in placement if gpus]
        if not gang or min(gang) < 0:
            raise InputError(f"A placement is {written(placement)}; it must have a GPU.")
        step_s = float(self.times.step_s(sum(gang), len(gang), local_batch))
        wait_s = step_s - float(self.times.gradient_s(local_batch))
        return StepSeconds(step_s, max(wait_s, 0.0), measured=False)

    def observations(self) -> StepObservations:
        """Return steps on some gangs with some batches, to fit `StepTimes` to."""
        local = np.unique(np.geomspace(1, self.local_most, 5).round())
        gangs = np.repeat(np.array(_GANGS), local.size, axis=0)
        batches = np.tile(local, len(_GANGS))
        return StepObservations(
            gpus=gangs[:, 0],
            nodes=gangs[:, 1],
            local_batch=batches,
            gradient_s=self.times.gradient_s(batches),
            step_s=self.times.step_s(gangs[:, 0], gangs[:, 1], batches),
        )


class GpuSpeeds:
    """Steps/s of one application on one accelerator type, by number of GPUs.

    These are told, so that they are both what is true and what a job believes. Whoever has samples
    per second counts samples as steps. Between the numbers of GPUs that are told speeds are
    interpolated linearly; with fewer or more a job cannot run.

    Parameters
    ----------
    name
        Of the application, for errors.
    speeds
        Steps/s by number of GPUs; 0 where it cannot run with that number.

    Raises
    ------
    InputError
        For a number of GPUs that is not whole and above 0, a speed below 0, or no speed above 0.
    """

    @explained
    def __init__(self, name: str, speeds: Mapping[int, float]) -> None:
        self.name = name
        told = mapping(f"The speeds of {name!r}", speeds, "such as {1: 120.0, 2: 230.0}")
        whose = f"of {name!r}"
        known = {
            whole(f"The number of GPUs {whose}", gpus, 1, integral=True): number(
                f"The steps/s {whose} with {gpus} GPUs", speed
            )
            for gpus, speed in told.items()
        }
        if not any(known.values()):
            raise InputError(f"The application {name!r} has no speed above 0 with any GPUs.")
        self._gpus = np.array(sorted(known), dtype=np.int64)
        self._speeds: Floats = np.array([known[gpus] for gpus in sorted(known)], dtype=float)

    def plain(self) -> dict[str, Any]:
        """Return the steps/s by number of GPUs as they were told, as JSON has them."""
        told = zip(self._gpus.tolist(), self._speeds.tolist(), strict=True)
        return {"speeds": {str(gpus): speed for gpus, speed in told}}

    def by_gpus(self, gpus: Int64s) -> Floats:
        """Return the steps/s with numbers of GPUs; 0 = cannot run."""
        found = np.interp(gpus, self._gpus, self._speeds, left=0.0, right=0.0)
        # Between a number with which it runs and one with which it does not nothing is known.
        above = np.searchsorted(self._gpus, gpus).clip(max=self._gpus.size - 1)
        below = np.searchsorted(self._gpus, gpus, side="right").clip(min=1) - 1
        runs = (self._speeds[above] > 0) & (self._speeds[below] > 0)
        return np.where(runs, found, 0.0)

    def at(self, placement: Sequence[int], local_batch: float) -> StepSeconds:
        """Return the seconds of a step; how GPUs lie in machines and the batch do not count.

        Raises
        ------
        InputError
            For a number of GPUs with which the application cannot run.
        """
        gpus = sum(placement)
        speed = float(self.by_gpus(np.array([gpus]))[0])
        if not speed:
            raise InputError(
                f"{self.name!r} has no speed with {gpus} GPUs; known: "
                f"{', '.join(map(str, self._gpus[self._speeds > 0]))}."
            )
        return StepSeconds(1.0 / speed, 0.0, measured=gpus in self._gpus)
