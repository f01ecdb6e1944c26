"""What was told of speeds in the course of a run, beside the truth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    import apportion as ap
    from apportion.cluster import Cluster
    from apportion.mechanism.scheduler import Gangs
    from apportion.sim.beliefs import Beliefs, Believed
    from apportion.sim.engine.true_state import TrueState

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]

_COUNTS_S = 30.0
"""Less work than so many seconds measures nothing."""


class Watched:
    """Knowledge of speeds that writes down how far off it is, round by round.

    For one run in rounds of jobs that share no devices. Errors are |ln(told / true)| less the
    job's mean of ln(told / true): of a job that never ran only ratios are meant.
    """

    def __init__(self, beliefs: Beliefs) -> None:
        self._beliefs = beliefs
        self._lines: list[pd.DataFrame] = []
        self._worked_s: list[float] = []

    def start(self, truth: TrueState, workload: ap.Workload, cluster: Cluster) -> Believed:
        """Begin the run."""
        return _Noting(self._beliefs.start(truth, workload, cluster), truth, self._note)

    def errors(self, run: ap.Run) -> pd.DataFrame:
        """Return day, job, types measured and mean error of each active job after each round.

        Raises
        ------
        InputError
            For another run than the one that was watched.
        """
        length = float(run.settings["round_seconds"])
        # Rounds in which nothing changed are told of at once, with all their seconds of work.
        rounds = np.maximum(np.ceil(np.array(self._worked_s) / length - 1e-6), 1).astype(int)
        last = np.cumsum(rounds) - 1
        # Of the last round, in which the last job completes, nothing is learnt.
        if not last.size or len(run.rounds) - last[-1] not in (1, 2):
            raise InputError("This is not the run that was watched.")
        starts = run.rounds["start_s"].to_numpy()[last - rounds + 1]
        days = ((starts + length * (rounds - 1)) // 86400).astype(int).tolist()
        lines = zip(self._lines, days, strict=True)
        return pd.concat([line.assign(day=day) for line, day in lines], ignore_index=True)

    def _note(self, line: pd.DataFrame, worked_s: float) -> None:
        self._lines.append(line)
        self._worked_s.append(worked_s)


class _Noting:
    """Passes everything on, and notes errors before what ran is learnt."""

    def __init__(self, believed: Believed, truth: TrueState, note: Any) -> None:
        self._believed, self._truth, self._note = believed, truth, note
        self.speed, self.pairs, self.fixed = believed.speed, believed.pairs, believed.fixed
        self._true = truth.speed.copy()
        self._measured = np.zeros(truth.speed.shape, dtype=bool)

    def observe(self, gangs: Gangs, rate: Floats, seconds: Floats) -> Ints:
        """Learn from what has run."""
        jobs = self._truth.told.active
        line = pd.DataFrame({"job": jobs, "cells": self._measured[jobs].sum(axis=1)})
        line["error"] = _errors(self.speed[jobs], self._true[jobs])
        self._note(line, float(seconds.max()))
        long = seconds >= _COUNTS_S
        self._measured[gangs.job[long], gangs.option[long]] = True
        return self._believed.observe(gangs, rate, seconds)

    def spread(self, jobs: Ints) -> Floats:
        """Return standard deviations."""
        return self._believed.spread(jobs)


def _errors(told: Floats, true: Floats) -> Floats:
    """Mean over the types on which a job runs of |ln(told / true)|, its scale removed."""
    runs = true > 0
    logs = np.log(np.where(runs, told, 1.0)) - np.log(np.where(runs, true, 1.0))
    count = runs.sum(axis=1)
    mean = logs.sum(axis=1) / count
    return np.asarray(np.where(runs, np.abs(logs - mean[:, None]), 0.0).sum(axis=1) / count)
