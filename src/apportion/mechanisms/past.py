"""What was before the first decision of a scheduler that begins in the middle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from apportion.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apportion.types import Bools, Floats, Ints

    Held = tuple[int, list[int]]


@dataclass(frozen=True, eq=False)
class Past:
    """What a scheduler is told in `take_over`, beside the job table.

    The job table has all jobs as active, with their steps left and the seconds that they have had
    devices; of these follow attained service and network priority. Arrays are by number of the job,
    shape (jobs,) unless said otherwise.

    Attributes
    ----------
    now_s
        The time of the decision.
    held
        Type and devices of each job that has some.
    stays
        Whether a job that has devices must keep them: its lease is not over, or it is pinned.
    waited_s
        Seconds for which each has waited by now; 0 for who has devices.
    running_on
        Accelerator type on which each has been all the time, -1 for none.
    owed_s
        Seconds by which each is behind its shares at each option of a policy, shape (jobs,
        options).
    """

    now_s: float
    held: Mapping[int, Held]
    stays: Bools
    waited_s: Floats
    running_on: Floats
    owed_s: Floats


@runtime_checkable
class TakesOver(Protocol):
    """A scheduler that can begin in the middle, as all of the package can."""

    def take_over(self, past: Past) -> Ints:
        """Begin with all jobs of the job table, before the first decision.

        They are there already, and some have devices (`Past.held`), which the scheduler takes at
        its devices. For one of one's own that is done before it is asked, by number of the job.

        Returns
        -------
        ndarray
            Jobs that it is still to be told of as arrived, at its first decision: nobody, unless
            it has taken nothing over. ``None`` for nobody, too, from one of one's own.
        """
        ...


def told_otherwise(name: str, of_tiers: bool) -> InputError:
    """Say that what is told by option has other columns than the shares that are found."""
    columns = "(accelerator, tier)" if of_tiers else "accelerator types"
    return InputError(f"Shares are of {columns} here; {name} must have columns of that kind.")
