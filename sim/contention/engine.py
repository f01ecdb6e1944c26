"""What every engine of iterations is and says: the order of an instant, errors, standstill.

What happens in one instant has one order (Wang et al., Algorithm 3): tasks and transfers end, and
with them iterations and jobs; GPUs of jobs that are done get free, and jobs that have arrived are
placed; gates are asked; links are shared anew if transfers have come or gone; idle GPUs take their
next tasks. So `Engine.run` ends where somebody decides, between the second step and the third:
it takes in what ends at the time to which it is to run, and leaves all that begins then to the
next call, which sees the jobs that have come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from apportion.errors import SolveError, written
from apportion.sim.network.link_sharing import check_there

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.sim.contention.iteration import Iteration
    from apportion.sim.network.link_sharing import LinkSharing
    from apportion.types import Floats, Ints


INSTANT_S = 1e-9
"""Events that are less apart are one instant: ties of sums of seconds must not hang on rounding."""

IN_VAIN = 100_000
"""Times in a row that a gate may put off its answer while nothing else happens."""

Turn = tuple[int, int]
"""Whose turn it is on GPUs and at the gate: the least of ``first * iterations left + second``,
of equal ones the lower job. Whole numbers, so that no turn hangs on rounding."""


def instant_s(now_s: float) -> float:
    """Return how far ahead events are still of this instant."""
    return max(INSTANT_S, now_s * 2.0**-47)


class SoFar(NamedTuple):
    """What jobs have done on the GPUs that they have.

    Attributes
    ----------
    left
        Iterations that are not over, shape (jobs,), as the others.
    computed_s
        GPU-seconds of the tasks that are over.
    sent
        Bytes that had moved when the rates of the jobs were last looked at.
    """

    left: Ints | Floats
    computed_s: Floats
    sent: Floats


class Engine(Protocol):
    """What lets iterations run; such as `PlainEngine`."""

    @property
    def events(self) -> int:
        """Ends of tasks and transfers so far."""
        ...

    def add(
        self,
        job: int,
        iteration: Iteration,
        times: int,
        gpus: Sequence[int],
        links: Sequence[int],
        turn: Turn,
        ready_s: float,
    ) -> None:
        """Put a job on GPUs: so many iterations, from a time on, which is now or later."""
        ...

    def drop(self, job: int) -> None:
        """Take a job off its GPUs; what it has done of an iteration is lost."""
        ...

    def run(
        self,
        now_s: float,
        until_s: float,
        *,
        to_completion: bool,
        more_come: bool = False,
    ) -> tuple[float, list[tuple[int, float]]]:
        """Let jobs run to a time, or until some are done; return when that is, and who and when.

        What ends at that time is taken in, and nothing begins then: the next call lets it.

        `more_come` says that there will be other jobs then, with which a gate may answer otherwise:
        until then nothing happening is no standstill.
        """
        ...

    def so_far(self, jobs: Ints) -> SoFar:
        """Return what jobs have done since they were put on their GPUs, shape (jobs,)."""
        ...


def check_links(
    sharing: LinkSharing | None, count: int, job: int | None = None, links: Sequence[int] = ()
) -> None:
    """Refuse links that are not there: of a job, or in what is said of how they are shared.

    Raises
    ------
    InputError
        Naming the link, and how many there are.
    """
    check_there(f"Job {job} sends over", links, count)
    check = getattr(sharing, "check", None)  # a law of one's own need not have it
    if check is not None:
        check(count)


def standstill(
    now_s: float,
    gate: str,
    waiting: Sequence[tuple[int, float, Sequence[int]]],
    names: Sequence[object] = (),
    *,
    in_vain: bool = False,
) -> SolveError:
    """Say that nothing would ever happen again, and who (job, bytes, links) waits for the gate.

    Jobs are called by the names of their users, if these are given. `in_vain` says that the gate
    has named later and later times, and else holds all that wait.
    """
    called = [written(names[job]) if names else str(job) for job, _, _ in waiting[:5]]
    words = [
        f"job {name} waits for the gate {gate!r} to let it send {size:.3g} bytes over the links "
        f"{', '.join(map(str, links))}"
        for name, (_, size, links) in zip(called, waiting[:5], strict=True)
    ]
    if len(waiting) > 5:
        words.append(f"and {len(waiting) - 5} more wait")
    if in_vain:
        return SolveError(
            f"Nothing seems ever to happen again at {now_s:.6g} s: {'; '.join(words)}. The gate "
            f"named a time at which to be asked again {IN_VAIN:,} times, and nothing else happened "
            f"meanwhile."
        )
    return SolveError(
        f"Nothing would ever happen again at {now_s:.6g} s: {'; '.join(words)}. No transfer is "
        f"under way that could end."
    )
