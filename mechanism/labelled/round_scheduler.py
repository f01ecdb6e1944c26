"""The round scheduler: labelled ask and tell over the arrays of the core."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.checks import hashable, seconds, yes_no
from apportion.checks import seed as check_seed
from apportion.cluster import Cluster
from apportion.errors import InputError, unknown_name, written
from apportion.mechanism.core import RoundCore
from apportion.mechanism.labelled.rows import LabelledRows, labelled_plan, places, times_of
from apportion.mechanism.labelled.tables import (
    read_scale_factors,
    read_table,
    refuse_uneven,
    state_of,
)
from apportion.mechanism.placement import Placer

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    import pandas as pd

    from apportion.mechanism.labelled.rows import RoundPlan

    ScaleFactors = Mapping[Any, int] | pd.Series | int | None


class RoundScheduler:
    """Turns target shares of time into rounds: who runs next, on which devices.

    Set a target, then `ask` for the plan of a round and `tell` how long its jobs have run, in
    turns. In each round the jobs with the most time due run; nobody runs twice, gangs are whole
    and on one type, jobs that stay on a type keep their devices, and GPUs that the shares leave
    idle are lent to jobs that can run there.

    Parameters
    ----------
    cluster
        A `Cluster`, a mapping of GPU counts, or text such as ``"v100=8,k80=16"``.
    round_seconds
        Length of a round, seconds.
    placement
        ``"consolidated"`` (gangs on few machines), ``"first_fit"`` or ``"random"``.
    seed
        Seed of the random placement.
    carry_over
        Whether a new target begins with what jobs are owed from the one before.
    work_conserving
        Whether idle GPUs are lent.

    Raises
    ------
    InputError
        If a setting is wrong.

    Notes
    -----
    The mechanism of Gavel (Narayanan et al., OSDI 2020, section 5).
    """

    def __init__(
        self,
        cluster: Cluster | Mapping[str, int] | str,
        *,
        round_seconds: float = 360.0,
        placement: str = "consolidated",
        seed: int = 0,
        carry_over: bool = True,
        work_conserving: bool = True,
    ) -> None:
        seconds_each = seconds("round_seconds", round_seconds, strict=True)
        check_seed(seed)
        self.cluster = Cluster.of(cluster)
        self._core = RoundCore(
            self.cluster.counts,
            Placer(self.cluster, placement, seed),
            seconds_each,
            carry_over=yes_no("carry_over", carry_over),
            work_conserving=yes_no("work_conserving", work_conserving),
        )
        self._rows = LabelledRows(self._core, self.cluster.accelerators)
        self._where: dict[Hashable, tuple[str, tuple[int, ...]]] = {}
        self._pending: RoundPlan | None = None
        self._round = 0

    @property
    def jobs(self) -> tuple[Hashable, ...]:
        """The jobs that the scheduler knows, in order of submission."""
        return tuple(self._rows.scale)

    def set_target(
        self,
        X: pd.DataFrame | object,
        scale_factor: ScaleFactors = None,
        *,
        can_run: pd.DataFrame | None = None,
        combinations: Mapping[Any, Sequence[Hashable]] | None = None,
    ) -> None:
        """Set the share of time that each job or combination should get on each type.

        Jobs that are not in the table keep waiting for idle GPUs until they are removed.

        Parameters
        ----------
        X
            Shares in [0, 1], one row per job, or per tuple of jobs that run together; a DataFrame
            or anything that has one as its attribute ``X``, e.g. an `Allocation`.
        scale_factor
            GPUs of each job, by id, or one number for all. A job that is known may be left out; if
            nothing is given, new jobs have one GPU each.
        can_run
            Where jobs may be lent idle GPUs: true, or > 0 (where throughputs are given, faster
            types are preferred). Only where they have a share, if left out.
        combinations
            The jobs of rows of `X` and `can_run` that are not named by a tuple of them.

        Raises
        ------
        InputError
            If a type is unknown or a number out of range, or if the jobs of a combination have
            different scale factors.
        """
        labels, shares = read_table(
            # Shares come from any solver, to its own tolerance.
            "The share",
            X,
            self.cluster,
            most=1.0 + 1e-6,
            combinations=combinations,
        )
        members = dict.fromkeys(job for label in labels for job in label)
        scale = read_scale_factors(scale_factor, members, self._rows.scale, self.cluster)
        refuse_uneven(labels, scale)
        speed = (shares > 0).astype(float)
        if can_run is not None:
            rows, given = read_table(
                "can_run", can_run, self.cluster, combinations=combinations, truths=True
            )
            place = {frozenset(row): k for k, row in enumerate(rows)}
            for k, label in enumerate(labels):
                if frozenset(label) in place:
                    speed[k] = given[place[frozenset(label)]]
        self._rows.add(scale)
        self._rows.aim(labels, np.minimum(shares, 1.0), speed)

    def add(
        self,
        jobs: Iterable[Hashable],
        scale_factor: ScaleFactors = None,
        *,
        can_run: pd.DataFrame | None = None,
    ) -> None:
        """Make jobs known that have no share yet; they may be lent idle GPUs.

        Parameters
        ----------
        jobs
            Ids of the jobs.
        scale_factor
            GPUs of each job, by id, or one number for all; one each if nothing is given.
        can_run
            Where they can run, jobs by types (true, or a throughput); everywhere if left out.

        Raises
        ------
        InputError
            If a job is known already or missing in `can_run`, or a number is out of range.
        """
        new = list(dict.fromkeys(hashable("job", jobs)))
        for job in new:
            if job in self._rows.scale:
                raise InputError(f"Job {written(job)} is known already; ids must be unique.")
        speed = np.ones((len(new), len(self.cluster.accelerators)))
        if can_run is not None:
            rows, given = read_table("can_run", can_run, self.cluster, truths=True)
            place = {row: k for k, row in enumerate(rows)}
            for job in new:
                if (job,) not in place:
                    raise unknown_name("row of can_run", job, (row[0] for row in rows))
            speed = given[[place[(job,)] for job in new]]
        self._rows.add(read_scale_factors(scale_factor, new, {}, self.cluster))
        self._rows.lend(new, speed)

    def remove(self, jobs: Iterable[Hashable]) -> None:
        """Forget jobs that are complete or cancelled; the others of a combination run on.

        Raises
        ------
        InputError
            If a job is not known.
        """
        gone = list(dict.fromkeys(hashable("job", jobs)))
        for job in gone:
            if job not in self._rows.scale:
                raise unknown_name("job", job, self._rows.scale)
        self._rows.remove(gone)
        self._where = {job: where for job, where in self._where.items() if job not in gone}

    def ask(self) -> RoundPlan:
        """Return the plan of the next round; the same one until it has been told."""
        if self._pending is None:
            self._pending = labelled_plan(self._round, self._core.ask(), self._rows, self._where)
        return self._pending

    def tell(self, plan: RoundPlan, seconds: Mapping[Any, float] | None = None) -> None:
        """Report that a round is over.

        Parameters
        ----------
        plan
            The plan that was asked for last.
        seconds
            How long each job ran, seconds; a whole round where left out.

        Raises
        ------
        InputError
            If the plan is not the last one, a job is not in it, or a time is no number >= 0.
        """
        if self._pending is None or self._pending is not plan:
            which = written(getattr(plan, "number", plan))
            raise InputError(
                f"The plan of round {which} does not wait to be told; ask() for a plan, then "
                f"tell() it once."
            )
        ran = times_of(plan, seconds, self._core.round_seconds)
        row_of = self._rows.position()
        gangs = [gang for gang in plan.assignments if frozenset(gang.jobs) in row_of]
        rows = [row_of[frozenset(gang.jobs)] for gang in gangs]
        types = [self.cluster.accelerators.index(gang.accelerator) for gang in gangs]
        longest = [max(ran[job] for job in gang.jobs) for gang in gangs]
        self._core.tell(np.array(rows, int), np.array(types, int), np.array(longest, float))
        self._where = places(plan, self._rows.scale)
        self._pending = None
        self._round += 1

    def state(self) -> dict[str, Any]:
        """Return everything that the next rounds depend on, ready for JSON.

        Raises
        ------
        InputError
            If a plan has not been told yet, or a job id is no text or number.
        """
        if self._pending is not None:
            raise InputError(
                f"Round {self._round} is under way; tell() its plan before the state is taken."
            )
        return state_of(self.cluster, self._core, self._rows, self._where, self._round)

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> RoundScheduler:
        """Make a scheduler that goes on from a `state`, with the same plans.

        Raises
        ------
        InputError
            If it is none that `state` returned.
        """
        try:
            scheduler = cls(Cluster(**state["cluster"]), **state["settings"])
            scheduler._core.restore(state["core"])
            scheduler._rows.labels = [tuple(label) for label in state["labels"]]
            scheduler._rows.scale = {job: gpus for job, gpus in state["scale"]}
            scheduler._where = {job: (name, tuple(held)) for job, name, held in state["where"]}
            scheduler._round = int(state["round"])
        except (TypeError, ValueError, LookupError, AttributeError, OverflowError) as error:
            why = f"it has no {error}" if isinstance(error, KeyError) else str(error).rstrip(".")
            raise InputError(f"This is no state of a round scheduler: {why}.") from error
        return scheduler
