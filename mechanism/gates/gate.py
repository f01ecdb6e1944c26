"""What a gate is: it sees a transfer that could start, and the links, and says when it may."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from apportion.mechanism.job_table import JobTable

START = -math.inf
"""The transfer may start at once."""

HOLD = math.inf
"""It may not, until a transfer ends, or a gate has named the time: then the gate is asked again.

Any other time is that at which the gate is to be asked again, whatever happens until then. So the
latest of several answers is what all of them together say.
"""


class Flow(NamedTuple):
    """A transfer, as gates and links see it.

    Attributes
    ----------
    job
        Whose it is.
    links
        Links that it uses all the time: servers, ascending, then racks. None within one server.
    size, left
        Bytes in all, and still to go.
    most
        Highest bytes/s that it can use; infinite for all that it gets.
    """

    job: int
    links: tuple[int, ...]
    size: float
    left: float
    most: float = math.inf


class LinksView(Protocol):
    """The links as a gate sees them; nothing of it changes what happens.

    Attributes
    ----------
    s_per_byte, penalty_s_per_byte
        The cost of a byte that k transfers share a link for is ``k s_per_byte + (k - 1)
        penalty_s_per_byte``: b and eta.
    """

    s_per_byte: float
    penalty_s_per_byte: float

    @property
    def flows(self) -> Sequence[Flow]:
        """Transfers under way, with what is left of them now."""
        ...

    @property
    def waiting(self) -> Sequence[Flow]:
        """Transfers that wait to start, first served first, that which is asked about included."""
        ...

    def on(self, link: int) -> Sequence[Flow]:
        """Transfers under way on a link, in the order in which they started."""
        ...

    def rates(self, flows: Sequence[Flow]) -> Sequence[float]:
        """Bytes/s that such transfers would get if they were under way together."""
        ...


@runtime_checkable
class Gate(Protocol):
    """Says when a transfer may start; asked in the order of the jobs' priorities.

    A transfer that wants to start is asked about. Whenever one ends or has started, all that wait
    are asked about, one by one, and see those that were let in before them. A gate that never lets
    a transfer in because another has started can say so, ``opens_at_starts = False``, and is not
    asked then. One that, besides, never lets a transfer in before one ends on its own links can say
    ``sees_own_links_only = True``, and is asked about no others then.

    One that goes by what jobs are, such as a column of one's own, has ``knowing(jobs)``: it returns
    the gate of a run, given the `JobTable`, in which `Flow.job` is a place.
    """

    @property
    def name(self) -> str:
        """Name of the gate."""
        ...

    def decide(self, now_s: float, flow: Flow, links: LinksView) -> float:
        """Return `START`, `HOLD`, or the time, seconds, at which to ask again.

        At a time that is not later than now it starts.
        """
        ...


def knowing(gate: Gate, jobs: JobTable) -> Gate:
    """Return the gate of a run: one that asks for the jobs is told them."""
    ask: Callable[[JobTable], Gate] | None = getattr(gate, "knowing", None)
    return gate if ask is None else ask(jobs)
