"""Pairs that are estimated from reference types, and completed anew from what runs."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from apportion.annotations import check_fields
from apportion.checks import choice, number, whole
from apportion.checks import seed as check_seed
from apportion.errors import InputError
from apportion.estimators import EstimatedPairs, InterferenceEstimator
from apportion.policies import PairTable

if TYPE_CHECKING:
    from apportion.cluster import Cluster
    from apportion.sim.engine.true_state import TrueState
    from apportion.sim.workload import Workload
    from apportion.types import Bools, Floats, Ints


@dataclass(frozen=True)
class CompletedPairs:
    """Pairs of jobs are estimated from reference types, and learnt while jobs share devices.

    Of a new job some runs beside references were measured: its fingerprint. What pairs show
    completes the rows of their jobs anew, see `apportion.estimators.EstimatedPairs`. Jobs of
    unequal scale factors are not paired. By name, ``pair_estimates="completed"`` or ``"nearest"``.

    Parameters
    ----------
    references
        Job types of each scale factor that are known beside each other: so many, drawn at random,
        or all if there are fewer.
    measured_share
        Probability that a job was measured beside a reference on an accelerator type before it
        runs.
    noise
        Standard deviation of the logarithm of a measurement, by which it is weighed.
    rows
        ``"job"``: no job is recognised. ``"type"``: jobs of one type are measured and learn
        together.
    source
        ``"completed"``: a pair makes what the imputer completes it to. ``"nearest"``, Gavel's text
        (Narayanan et al., OSDI 2020, section 6): the fingerprint is completed over the references,
        and the job taken for the reference whose row is nearest to it; a pair makes what the
        references of its two jobs make beside each other, until it has been measured itself.
    imputer
        Completes rows, as for `apportion.estimators.InterferenceEstimator`; the default there if
        None. Gavel completes by low rank, ``AlternatingLeastSquares()``.
    metric
        Distance of rows for ``"nearest"``: ``"cosine"``, Gavel's, or ``"euclidean"``.
    seed
        Of references, measurements and noise.

    Raises
    ------
    InputError
        For options out of range.
    """

    references: int = 16
    measured_share: float = 0.2
    noise: float = 0.05
    rows: Literal["job", "type"] = "job"
    seed: int = 0
    source: Literal["completed", "nearest"] = "completed"
    imputer: Any = None
    metric: Literal["cosine", "euclidean"] = "cosine"

    def __post_init__(self) -> None:
        check_fields(self)
        self.estimator()
        whole("references", self.references, 1)
        number("measured_share", self.measured_share, most=1.0)
        number("noise", self.noise, most=10.0)
        choice("rows", self.rows, ("job", "type"))
        check_seed(self.seed)

    def estimator(self) -> InterferenceEstimator:
        """Return what completes, which has seen nothing yet.

        Raises
        ------
        InputError
            For an unknown source or metric, and what is no imputer.
        """
        imputer = copy.deepcopy(self.imputer)
        return InterferenceEstimator(
            imputer, source=self.source, metric=self.metric, noise=self.noise
        ).checked()

    def start(self, truth: TrueState, workload: Workload, cluster: Cluster) -> _Completing:
        """Measure references, and return what is believed of pairs.

        Raises
        ------
        InputError
            If the workload has no pair throughputs.
        """
        if workload.pairs is None or truth.beside is None:
            raise InputError(f"The workload {workload.name!r} has no pair throughputs to estimate.")
        place = [workload.pairs.accelerators.index(name) for name in cluster.accelerators]
        gangs = workload.pairs.keys.get_level_values(1).to_numpy(dtype=np.intp)
        # Jobs of keys that are not there share with nobody.
        blank = ((0, 1), (0, 1), (0, 0))
        normalized = np.pad(workload.pairs.normalized()[:, :, place], blank)
        return _Completing(self, truth, truth.beside.key, normalized, gangs)


class _Completing:
    """What is believed of pairs in a run, see `apportion.sim.sharing.BelievedPairs`."""

    def __init__(
        self, options: CompletedPairs, truth: TrueState, key: Ints, normalized: Floats, gangs: Ints
    ) -> None:
        self._options, self._key, self._normalized = options, key, normalized
        self._scale, self._speed = truth.scale, truth.speed
        self._references: dict[int, Ints] = {}
        self._estimated: dict[int, EstimatedPairs] = {}
        self._profiled: set[int] = set()
        self._apart: set[tuple[int, int, int]] = set()
        self._rng = np.random.default_rng(options.seed)
        for gang in np.unique(gangs).tolist():
            keys = np.flatnonzero(gangs == gang)
            count = min(options.references, keys.size)
            chosen = np.sort(self._rng.choice(keys, count, replace=False))
            self._references[gang] = chosen
            self._estimated[gang] = EstimatedPairs(
                normalized[np.ix_(chosen, chosen)], rows=options.rows, estimator=options.estimator()
            )

    def table(self, jobs: Ints) -> PairTable:
        """Return what a policy needs of it, for some jobs: all that are left."""
        speed = self._speed[jobs]
        own = np.zeros((jobs.size, *speed.shape))
        for gang, estimated in self._estimated.items():
            rows = np.flatnonzero(self._scale[jobs] == gang)
            here = jobs[rows].tolist()
            if not here:
                continue
            self._admit(here, gang)
            estimated.keep(here)
            runs = speed[rows] > 0
            both = runs[:, None] & runs[None, :]
            block = estimated.throughputs(here) * speed[rows][:, None] * both
            own[np.ix_(rows, rows)] = block
        return PairTable(own, np.arange(jobs.size))

    def measure(self, job: Ints, partner: Ints, types: Ints) -> Bools:
        """Take note of pairs that have run; tell which turned out not to fit one GPU."""
        misfits = np.zeros(job.size, dtype=bool)
        lines = zip(job.tolist(), partner.tolist(), types.tolist(), strict=True)
        for line, (one, other, where) in enumerate(lines):
            a, b = self._key[one], self._key[other]
            pair = self._normalized[[a, b], [b, a], where]
            if (pair == 0).any():
                cell = min(one, other), max(one, other), where
                misfits[line] = cell not in self._apart
                self._apart.add(cell)
            pair = pair * self._noise(2)
            self._estimated[int(self._scale[one])].observe(one, other, where, *pair.tolist())
        return misfits

    def _admit(self, jobs: list[int], gang: int) -> None:
        """Measure new jobs, or the first ones of their types, beside the references."""
        estimated, references = self._estimated[gang], self._references[gang]
        by_type = self._options.rows == "type"
        for job in jobs:
            name = int(self._key[job]) if by_type else job
            estimated.admit([job], [str(name)])
            if name in self._profiled:
                continue
            self._profiled.add(name)
            own = self._normalized[self._key[job], references]
            other = self._normalized[references, self._key[job]]
            seen = self._rng.random(own.shape) < self._options.measured_share
            noise = self._noise(*own.shape), self._noise(*own.shape)
            measured = [
                np.where(seen, each * by, np.nan)[None]
                for each, by in zip((own, other), noise, strict=True)
            ]
            estimated.profile([job], *measured)

    def _noise(self, *shape: int) -> Floats:
        """Return factors by which measurements are off."""
        return np.exp(self._options.noise * self._rng.standard_normal(shape))
