"""How long iterations take on links that are shared: over time, and by model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.sim.record import Columns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from apportion.mechanism.scheduler import GangProgress
    from apportion.sim.about import AboutRun
    from apportion.types import Floats


QUANTILES = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
"""Points of the distribution of the seconds of iterations."""

_ALIKE = 1e-12
"""Part of an iteration by which rounding may change it."""
_TOLD = ("from_s", "to_s", "iteration_s", "iterations", "marks_gigabits")


class IterationTimes(Columns):
    """Takes down the seconds of iterations, as long as they stay the same a line.

    Parameters
    ----------
    ids
        Names of the jobs, by number.
    models
        What each trains.
    marks
        Returns the gigabits wanted above the capacities of links so far, by job; None where nobody
        knows.
    """

    def __init__(
        self,
        ids: Sequence[Any],
        models: Sequence[str],
        marks: Callable[[], Floats] | None = None,
    ) -> None:
        self._ids, self._models, self._marks = ids, models, marks
        self._before: Floats = np.zeros(len(ids))
        self._rows: list[list[float]] = []
        self._last = np.full(len(ids), -1, dtype=np.intp)  # line of each job

    def ran(self, now_s: float, end_s: float, ran: GangProgress, active: int) -> None:
        """Take down the iterations between two times."""
        marks = None if self._marks is None else self._marks().copy()
        added = np.zeros(len(self._ids)) if marks is None else marks - self._before
        done = ran.rate * ran.worked_s * ran.times
        for job, rate, steps in zip(ran.gangs.job.tolist(), ran.rate, done, strict=True):
            if not steps > 0:
                continue
            row = self._rows[self._last[job]] if self._last[job] >= 0 else None
            alike = row is not None and abs(row[3] * rate - 1) <= _ALIKE and row[2] == now_s
            if row is None or not alike:
                self._last[job] = len(self._rows)
                row = [job, now_s, end_s, 1 / float(rate), 0.0, 0.0]
                self._rows.append(row)
            row[2] = end_s
            row[4] += float(steps)
            row[5] += float(added[job])
        if marks is not None:
            self._before = marks

    def tables(self, schedule: pd.DataFrame | None) -> dict[str, pd.DataFrame]:
        """Return ``iterations``, over time, and ``iteration_times``, by model and of all.

        ``marks_gigabits`` is what an iteration wanted above the capacities of links.
        """
        rows = np.array(self._rows, dtype=float).reshape(-1, len(_TOLD) + 1)
        job = rows[:, 0].astype(int)
        each = pd.DataFrame(rows[:, 1:], columns=list(_TOLD))
        each.insert(0, "job", [self._ids[number] for number in job.tolist()])
        each.insert(1, "model", [self._models[number] for number in job.tolist()])
        each["marks_gigabits"] /= each["iterations"]
        if self._marks is None:
            del each["marks_gigabits"]
        return iteration_tables(each)


def iteration_tables(each: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return ``iterations`` as told, and ``iteration_times``, by model and of all.

    Parameters
    ----------
    each
        ``job``, ``model``, ``from_s``, ``to_s``, ``iteration_s``, ``iterations`` and, where links
        are marked, ``marks_gigabits``.
    """
    by_model = {str(model): _distribution(own) for model, own in each.groupby("model")}
    if len(each):
        by_model["all"] = _distribution(each)
    times = pd.DataFrame.from_dict(by_model, orient="index").rename_axis("model")
    return {"iterations": each, "iteration_times": times}


def iterations_on_links(about: AboutRun, runtime: Any) -> list[Columns]:
    """Return what takes down the iterations of a run, if its gangs share links.

    Those of elastic jobs are of several batches. The mechanism of iterations takes down its own,
    with a timeline.
    """
    network = None if about.network is None else about.network.model
    if about.given.elastic or not getattr(network, "shares_links", False) or about.told is None:
        return []
    marks = getattr(getattr(runtime, "speeds", None), "marks_gigabits", None)
    return [IterationTimes(about.told.ids, about.told.job_types, marks)]


def _distribution(each: pd.DataFrame) -> dict[str, float]:
    """Return number, mean and quantiles of iterations, and what they wanted too much."""
    told = each.sort_values("iteration_s")
    count, seconds = told["iterations"].to_numpy(), told["iteration_s"].to_numpy()
    so_far = count.cumsum()
    places = np.searchsorted(so_far, np.array(QUANTILES) * so_far[-1] * (1 - _ALIKE))
    found = {"iterations": so_far[-1], "mean_s": count @ seconds / so_far[-1]}
    found |= {f"p{100 * q:g}_s": seconds[at] for q, at in zip(QUANTILES, places, strict=True)}
    if "marks_gigabits" in told:
        found["marks_gigabits"] = count @ told["marks_gigabits"].to_numpy() / so_far[-1]
    return {name: float(value) for name, value in found.items()}
