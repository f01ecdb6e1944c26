"""When a simulation asks its policy for new shares, and what it tells it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from apportion.errors import SolveError
from apportion.mechanism.priority import LEAST_SHARE
from apportion.policies import Instance, solve_instance
from apportion.sim.sharing import NO_PAIRS, Shares
from apportion.sim.standing import StandingClasses

if TYPE_CHECKING:
    from types import TracebackType

    from numpy.typing import NDArray

    from apportion.policies import Policy
    from apportion.sim.engine.truth import Truth

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]

__all__ = ["Resolver"]


class Resolver:
    """Solves the policy over the active jobs, at most every `resolve_seconds`.

    Parameters
    ----------
    policy
        The policy.
    resolve_seconds
        Least time between two solves, seconds. 0 solves after every arrival and completion.
    """

    def __init__(self, policy: Policy, resolve_seconds: float) -> None:
        self.policy = policy
        self.resolve_seconds = resolve_seconds
        self.changed = False
        self.solves = 0
        self.policy_seconds = 0.0
        self._last_s = -np.inf
        self._standing: StandingClasses | None = None
        self._running_on: Floats = np.empty(0)

    @property
    def next_s(self) -> float:
        """When a changed set of jobs may be solved for at the earliest, seconds."""
        return self._last_s + self.resolve_seconds

    def due(self, now_s: float) -> bool:
        """Whether jobs have come or gone and the last solve is long enough ago."""
        return self.changed and now_s >= self.next_s

    def solve(self, ledger: Truth, now_s: float) -> Shares:
        """Return the time shares of the active jobs, alone and, with space sharing, in pairs.

        Errors of the policy get a note of the policy and the time.

        Raises
        ------
        SolveError
            If the policy returns shares of a wrong shape, or that are not finite.
        """
        active = ledger.active
        started = time.perf_counter()
        with _Noted(self.policy.label, now_s, active.size):
            if self.solves == 0:
                self._running_on = np.full(ledger.jobs, -1.0)
                self._standing = StandingClasses.of(self.policy, ledger)
            if self._standing is not None:
                X, pairs = self._standing.shares(active), NO_PAIRS
            else:
                X, pairs = self._solve_anew(ledger, now_s)
            _check(X, (active.size + len(pairs), ledger.capacity.size))
        self.policy_seconds += time.perf_counter() - started
        self.solves += 1
        self.changed, self._last_s = False, now_s
        X = np.clip(X, 0.0, 1.0)
        all_the_time = X[: active.size] >= 1 - LEAST_SHARE
        self._running_on[active] = np.where(
            all_the_time.any(axis=1), all_the_time.argmax(axis=1), -1.0
        )
        return Shares(X[: active.size], pairs, X[active.size :])

    def _solve_anew(self, ledger: Truth, now_s: float) -> tuple[Floats, Ints]:
        """Pose and solve the whole problem; return the shares, and the pairs in the last rows."""
        active = ledger.active
        instance = Instance.of_jobs(
            ledger.speed[active],
            ledger.scale[active],
            ledger.capacity,
            columns=ledger.told.columns(now_s) | {"running_on": self._running_on[active]},
            prices=ledger.prices,
            entities=ledger.told.entities,
        )
        beside = ledger.beside if self.policy.space_sharing else None
        pairs = beside.table(active) if beside is not None else None
        solution = solve_instance(self.policy, instance, pairs=pairs)
        return np.asarray(solution.X, dtype=float), solution.pairs


def _check(shares: Floats, shape: tuple[int, ...]) -> None:
    if shares.shape != shape:
        raise SolveError(f"The shares have the shape {shares.shape} instead of {shape}.")
    if not np.isfinite(shares).all():
        raise SolveError(f"{np.count_nonzero(~np.isfinite(shares))} shares are not finite.")


class _Noted:
    """Adds to a passing error which policy was being solved, and when."""

    def __init__(self, policy: str, now_s: float, jobs: int) -> None:
        self._note = f"while solving {policy!r} at {now_s:.0f} s of the simulation for {jobs} jobs"

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            error.add_note(self._note)
