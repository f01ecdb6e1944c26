"""What is told of speeds in a simulation, out of its settings or given by itself.

`EstimatedSpeeds` believes the speeds of single jobs from what a simulation runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from apportion.annotations import check_fields
from apportion.checks import choice, number, whole
from apportion.checks import seed as check_seed
from apportion.errors import InputError, written
from apportion.estimators import EstimatedSpeeds
from apportion.estimators.speeds.estimated import ROWS, checked_optimism
from apportion.mechanism.scheduler import NOBODY
from apportion.sim.beliefs import Agnostic, Told

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.cluster import Cluster
    from apportion.mechanism.scheduler import Gangs
    from apportion.sim.beliefs import Beliefs, Believed
    from apportion.sim.engine.true_state import TrueState
    from apportion.sim.sharing import BelievedPairs
    from apportion.sim.workload import Workload
    from apportion.types import Floats, Ints


_REFERENCES = 12
"""Job types that were profiled before, if nobody says how many and there are so many."""


@dataclass(frozen=True)
class Estimated:
    """Speeds of single jobs are estimated from reference job types, and learnt while jobs run.

    Nothing is known of a job that has not run yet but where it can run at all; what it makes is
    measured as soon as it has run for 30 s, with some noise. The truth of pairs is told.

    Parameters
    ----------
    references
        Job types of the workload that were profiled before on every accelerator type and number of
        GPUs: so many, drawn at random. ``None``: 12, or all if there are fewer.
    optimism
        Standard deviations of the logarithm that are added where nothing was measured.
    noise
        Standard deviation of the logarithm of a measurement.
    rows
        ``"job"``: no job is recognised. ``"type"``: what one job teaches counts for all jobs of its
        type, and a type that is a reference is known from the beginning.
    seed
        Of the references and of the noise.

    Raises
    ------
    InputError
        For options out of range.
    """

    references: int | None = None
    optimism: float = 1.0
    noise: float = 0.05
    rows: Literal["job", "type"] = "job"
    seed: int = 0

    def __post_init__(self) -> None:
        check_fields(self)
        if self.references is not None:
            whole("references", self.references)
        checked_optimism(self.optimism)
        number("noise", self.noise, most=10.0)
        choice("rows", self.rows, ROWS)
        check_seed(self.seed)

    def start(self, truth: TrueState, workload: Workload, cluster: Cluster) -> Believed:
        """Profile the references, and estimate every job."""
        table = _profiled(workload, cluster)
        references = min(_REFERENCES, len(table)) if self.references is None else self.references
        if references > len(table):
            raise InputError(
                f"references is {references}, but the workload {workload.name!r} has "
                f"throughputs of {len(table)} job types only."
            )
        rng = np.random.default_rng(self.seed)
        drawn = np.sort(rng.choice(len(table), references, replace=False))
        estimated = EstimatedSpeeds(
            table.iloc[drawn],
            optimism=self.optimism,
            noise=self.noise,
            rows=self.rows,
            seed=int(rng.integers(2**31)),
        )
        types = workload.jobs["job_type"].tolist()
        jobs = np.arange(len(types))
        estimated.admit(jobs.tolist(), types)
        place = {label: column for column, label in enumerate(estimated.columns)}
        columns = np.array(
            [[place[name, gpus] for name in cluster.accelerators] for gpus in truth.scale.tolist()],
            dtype=np.intp,
        ).reshape(truth.speed.shape)
        return _Learning(estimated, columns, truth.speed > 0, truth.beside)


def _profiled(workload: Workload, cluster: Cluster) -> pd.DataFrame:
    """Steps/s of job types, a column for each accelerator and number of GPUs that jobs hold."""
    gangs = np.unique(workload.jobs["scale_factor"].to_numpy()).tolist()
    wide = pd.DataFrame(workload.throughputs[list(cluster.accelerators)].unstack())
    columns = [(name, gpus) for name in cluster.accelerators for gpus in gangs]
    return wide.reindex(columns=columns).dropna(how="all").sort_index()


class _Ran(NamedTuple):
    """Who ran where, for the estimator."""

    job: Ints
    column: Ints


class _Learning:
    """What is believed in a run; see `apportion.sim.beliefs.Believed`."""

    fixed = False

    def __init__(
        self,
        estimated: EstimatedSpeeds,
        columns: Ints,
        runs: NDArray[np.bool_],
        pairs: BelievedPairs | None,
    ) -> None:
        self.pairs = pairs
        self._estimated, self._columns, self._runs = estimated, columns, runs
        self.speed = np.zeros(columns.shape)
        self._read(np.arange(len(columns)))

    def observe(self, gangs: Gangs, rate: Floats, seconds: Floats) -> Ints:
        """Learn from jobs that had their devices for themselves; return those that moved."""
        alone = np.ones(gangs.job.size, dtype=bool)
        if gangs.mate is not None:
            alone = gangs.mate == np.arange(gangs.mate.size)
        lines = np.flatnonzero(alone & (seconds > 0))
        if not lines.size:
            return NOBODY
        job = gangs.job[lines]
        ran = _Ran(job, self._columns[job, gangs.option[lines]])
        steps = rate[lines] * seconds[lines]
        moved = np.array(self._estimated.observe(ran, steps, seconds[lines]), dtype=np.intp)
        self._read(moved)
        return moved

    def spread(self, jobs: Ints) -> Floats:
        """Return the standard deviation of ln(speed), shape (jobs, types)."""
        spread = np.asarray(self._estimated.spread(jobs))
        return np.take_along_axis(spread, self._columns[jobs], axis=1)

    def _read(self, jobs: Ints) -> None:
        """Take over what is told of jobs; where they cannot run is known."""
        told = np.asarray(self._estimated.speeds(jobs))
        own = np.take_along_axis(told, self._columns[jobs], axis=1)
        self.speed[jobs] = np.where(self._runs[jobs], own, 0.0)


def chosen_beliefs(given: Beliefs | None, settings: dict[str, Any]) -> Beliefs:
    """Return what is told of speeds, out of the settings unless it is given by itself.

    Parameters
    ----------
    given
        What was given by itself, if anything was.
    settings
        As `apportion.sim.settings.settings_for` returns them; what runs do not record is taken
        out, and what was given by itself is written down.

    Raises
    ------
    InputError
        If it is said in both ways, or pairs are estimated beside other than told speeds.
    """
    if given is not None and not hasattr(given, "start"):
        raise InputError(
            f"beliefs is {written(given)}; it must be Told(), Agnostic(), Estimated() or another "
            f"thing with a method start."
        )
    estimates = settings.pop("pair_estimates", None)
    learns = settings.pop("learn_pairs", False)
    of_pairs, speeds = estimates is not None or learns, settings.get("speeds", "told")
    if given is None and speeds == "told":
        return Told(estimates, learns)
    if given is None and not of_pairs:
        return Agnostic() if speeds == "agnostic" else _estimated(settings)
    if given is None or of_pairs or speeds != "told":
        raise InputError(
            "pair_estimates and learn_pairs go with speeds='told' only, and none of the three with "
            "beliefs=, which says all of it. Write beliefs=Told(pair_estimates, learn_pairs) or "
            "leave the others out."
        )
    settings.pop("speeds", None)
    settings["beliefs"] = repr(given)
    return given


def _estimated(settings: dict[str, Any]) -> Estimated:
    told = {name: settings[name] for name in ("references", "optimism", "rows", "seed")}
    return Estimated(**told)
