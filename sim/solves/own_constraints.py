"""What a policy's own constraints say of each instant of a run: who fits, and what may be held."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from apportion.errors import InputError, written
from apportion.mechanism.shares import NO_PAIRS, Resources
from apportion.policies.core.classes import believed as believed_by
from apportion.policies.core.own_problems import check_stated
from apportion.policies.stated_resources import stated_resources, states_constraints

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from apportion.mechanism.job_table import JobTable
    from apportion.policies import Instance, Policy
    from apportion.policies.stated_resources import StatedResources
    from apportion.sim.beliefs import Believed
    from apportion.types import Bools, Floats, Ints

    Pose = Callable[[Ints, Mapping[str, Floats]], Instance]
    Columns = Callable[[float], Mapping[str, Floats]]

Kept = Literal["in each decision", "exactly", "on average"]
"""How a mechanism keeps them: who decides looks at `OwnConstraints.resources`; or jobs have their
shares at each instant, and with them all that holds of these; or nobody says."""

_LASTING = frozenset({"arrival_s", "total_steps", "scale_factor", "count", "order", "now_s"})
"""Columns that say the same of a job all the time, beside its facts, and the time."""


class OwnConstraints:
    """Reads resources off the constraints of a policy, for the jobs that are here at some time.

    Parameters
    ----------
    policy
        The policy.
    jobs, believed
        What it is told of the jobs, and of their speeds.
    columns, pose
        Return the columns of the jobs that are active at a time, and the problem of jobs by these.
    kept
        How the mechanism keeps them.

    Attributes
    ----------
    any
        Whether there are constraints that say anything of single instants to who decides.
    on_average
        Labels of those that single instants need not keep, as of the last solve.
    """

    _none_at: float | None = None

    def __init__(
        self,
        policy: Policy,
        jobs: JobTable,
        believed: Believed,
        columns: Columns,
        pose: Pose,
        kept: Kept,
    ) -> None:
        self._policy, self._jobs, self._believed = policy, jobs, believed
        self._columns, self._pose, self._kept = columns, pose, kept
        self._changing = policy if hasattr(policy, "next_change_s") else None
        known = set(policy.columns) <= _LASTING | jobs.facts.keys()
        timeless = self._changing is not None or "now_s" not in policy.columns
        self._lasting = known and timeless and believed.fixed and not policy.space_sharing
        self._checked, self.any = False, False
        self.on_average: set[str] = set()
        self._who: tuple[bytes, bytes] | None = None
        self._known: dict[float, StatedResources] = {}

    def next_change_s(self, now_s: float) -> float:
        """Return when the problem of the policy is another one next, as it says.

        Raises
        ------
        InputError
            If that is no later time.
        """
        if self._changing is None:
            return np.inf
        change_s = self._changing.next_change_s(now_s)
        if not isinstance(change_s, float | int) or not change_s > now_s:
            raise InputError(
                f"next_change_s({now_s!r}) of {self._policy!r} is {written(change_s)}; it must be "
                f"a later time in seconds, or infinity."
            )
        return float(change_s)

    def fits(self, now_s: float) -> Bools | None:
        """Tell where active jobs run and there can be enough, shape (jobs, options).

        ``None`` if there is for all, wherever they run.

        Raises
        ------
        InputError
            If a job can run nowhere, be it by itself and at any time.
        """
        if self._kept == "exactly" or not states_constraints(self._policy):
            return None
        active, in_each = self._jobs.active, self._kept == "in each decision"
        self._none_at = None
        stated = self._stated(now_s, active)
        self.on_average = {*stated.on_average, *(() if in_each else stated.stated)}
        self.any = in_each and bool(stated.stated)
        runs, exceeded = self._jobs.speed[active] > 0, stated.exceeded
        # Where a policy says that nobody may be, it has no share to give.
        if not in_each or not exceeded[runs][:, stated.capacity > 0].any():
            return None
        fits = runs & ~exceeded.any(axis=2)
        self._none_at = None if fits.any() else now_s
        if self._lasting and self.next_change_s(now_s) == np.inf:
            for job in active[~fits.any(axis=1)].tolist():
                self._check_ever(now_s, job)
        return fits

    def resources(self, now_s: float, for_s: float, pairs: Ints) -> Resources:
        """Return what gangs may hold at once; see `apportion.mechanism.shares.Sharing`.

        That of now, and of every time at which the policy's problem changes meanwhile.
        """
        active, at_s, until_s = self._jobs.active, [now_s], self.next_change_s(now_s)
        while until_s < now_s + for_s:
            at_s.append(until_s)
            until_s = self.next_change_s(until_s)
        stated = [self._stated(each, active, pairs) for each in at_s]
        usage = np.concatenate([each.usage for each in stated], axis=2)
        capacity = np.concatenate([each.capacity for each in stated])
        return Resources(active, pairs, usage, capacity, until_s if self._lasting else now_s)

    def _stated(self, now_s: float, jobs: Ints, pairs: Ints = NO_PAIRS) -> StatedResources:
        """Return what some active jobs, and pairs of them, hold at once, known or read now."""
        who = jobs.tobytes(), pairs.tobytes()
        if who != self._who:
            self._known, self._who = {}, who
        when = self.next_change_s(now_s) if self._lasting else now_s
        if when not in self._known:
            if not self._lasting:
                self._known.clear()
            self._known[when] = self._read(now_s, jobs, pairs)
        return self._known[when]

    def _read(self, now_s: float, jobs: Ints, pairs: Ints) -> StatedResources:
        """Read it off the constraints."""
        places = np.searchsorted(self._jobs.active, jobs)
        columns = {name: each[places] for name, each in self._columns(now_s).items()}
        posed, policy = self._pose(jobs, columns), self._policy
        if not self._checked:
            check_stated(policy, believed_by(policy, posed))
            self._checked = True
        if not len(pairs) or self._believed.pairs is None:
            return stated_resources(policy, posed)
        beside = self._believed.pairs.table(jobs)
        only = np.searchsorted(jobs, pairs)
        return stated_resources(policy, posed, beside, only)

    def why_none(self) -> str:
        """Say what keeps the first active job away, if the last solve had room for none."""
        job = self._jobs.active[:1].tolist()
        if self._none_at is None or not job:
            return ""
        held = self._too_much(self._none_at, job[0])
        return f"At {self._none_at:.0f} s there is no room for any. {held}" if held else ""

    def _check_ever(self, now_s: float, job: int) -> None:
        """Refuse a job that by itself is more than a constraint allows."""
        held = self._too_much(now_s, job, "can never run")
        if held:
            raise InputError(held)

    def _too_much(self, now_s: float, job: int, cannot: str = "cannot run") -> str:
        """Say of a job which constraints it exceeds by itself, wherever it runs; else nothing."""
        alone = self._read(now_s, np.array([job], dtype=np.intp), NO_PAIRS)
        runs = self._jobs.speed[job] > 0
        exceeded, usage = alone.exceeded[0, runs], alone.usage[0, runs]
        if not exceeded.any(axis=1).all():
            return ""
        least = np.where(exceeded, usage, np.inf).min(axis=0)
        each = zip(alone.names, alone.capacity, least, strict=True)
        why = [
            f"{name!r} allows {most:g}, of which it alone holds {held:g}"
            for name, most, held in each
            if held < np.inf
        ]
        jobs = self._jobs
        called = written(jobs.ids[job]) if jobs.ids else f"{job}"
        return (
            f"Job {called} ({written(jobs.job_type[job])}, {jobs.scale[job]} GPUs) {cannot}: of "
            f"{self._policy!r} {'; '.join(why)}."
        )
