"""Gates: which of the transfers that could start may, on links that others use.

A gate sees a transfer that could start, and the links, and says when it may. Built in are at most
so many transfers on a link, AdaDUAL, and time shifts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

from apportion.annotations import explained
from apportion.checks import choice, number, whole
from apportion.errors import InputError
from apportion.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from apportion.mechanism.job_table import JobTable


START = -math.inf
"""The transfer may start at once."""

HOLD = math.inf
"""It may not, until a transfer ends, or a gate has named the time: then the gate is asked again.

Any other time is that at which the gate is to be asked again, whatever happens until then. So the
latest of several answers is what all of them together say.
"""

TIE = 1e-9
"""Bytes and seconds that differ by less, relatively, are equal: no start hangs on rounding."""


class Flow:
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
    waits_for
        A link that a gate which holds the transfer may write here: it does so until one ends on
        that link, and is not asked before. ``None`` whenever it is asked.
    """

    __slots__ = ("_left", "job", "links", "most", "size", "waits_for")

    def __init__(
        self, job: int, links: tuple[int, ...], size: float, left: float, most: float = math.inf
    ) -> None:
        self.job, self.links, self.size, self._left, self.most = job, links, size, left, most
        self.waits_for: int | None = None

    @property
    def left(self) -> float:
        """Bytes still to go."""
        return self._left


class LinksView(Protocol):
    """The links as a gate sees them; it must change nothing of them.

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


@runtime_checkable
class Gate(Protocol):
    """Says when a transfer may start; asked in the order of the jobs' priorities.

    A transfer that wants to start is asked about. Whenever one ends or has started, all that wait
    are asked about, one by one, and see those that were let in before them. A gate that never lets
    a transfer in because another has started can say so, ``opens_at_starts = False``, and is not
    asked then; see `Flow.waits_for`, too. ``opens_idle_links = True`` says that no transfer ever
    waits for links without any: iterations of a job that has its GPUs and links for itself are then
    one event.

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


@dataclass(frozen=True)
class AtMost:
    """Let a transfer start if fewer than n are under way on every link that it uses.

    With the order by remaining service it is SRSF(n) of Wang et al., section 5, in whose text "each
    link between two nodes can be occupied by at most n tasks".

    Parameters
    ----------
    transfers
        n; infinite lets everything start.
    counted_by
        ``"server"``: a link is that of a server (or rack), as in the released code; ``"pair"``: it
        is what joins two of those that a transfer uses, as in the text.
    """

    opens_at_starts: ClassVar[bool] = False
    opens_idle_links: ClassVar[bool] = True

    transfers: float = 1
    counted_by: str = "server"

    @explained
    def __post_init__(self) -> None:
        if self.transfers != math.inf:
            whole("transfers", self.transfers, 1)
        choice("counted_by", self.counted_by, ("server", "pair"))

    @property
    def name(self) -> str:
        """``at_most_n``, ``at_most_n_by_pair``, or ``always``."""
        if self.transfers == math.inf:
            return "always"
        return f"at_most_{self.transfers:g}" + "_by_pair" * (self.counted_by == "pair")

    def decide(self, now_s: float, flow: Flow, links: LinksView) -> float:
        """Count the transfers on the busiest link."""
        if self.counted_by == "server":
            for link in flow.links:
                if len(links.on(link)) >= self.transfers:
                    flow.waits_for = link
                    return HOLD
            return START
        on = {link: {other.job for other in links.on(link)} for link in flow.links}
        for one, other in combinations(flow.links, 2):
            if len(on[one] & on[other]) >= self.transfers:
                flow.waits_for = one
                return HOLD
        return START


@dataclass(frozen=True)
class AdaDual:
    """Let a transfer join one other if it is small enough, and never a third (Algorithm 2).

    It starts on idle links; beside one transfer, of which ``R`` bytes are left, if

        size < R b / (2 (b + eta)),

    when starting at once, and not after the other has ended, makes the sum of the two completion
    times smaller (Theorem 2). Where two are under way on a link, it waits.

    Parameters
    ----------
    conflicts
        ``"all"``: the rule must hold against every transfer that it would meet. ``"first"``: as
        Algorithm 2 is written, against that on the first of its links that has one; the result
        then depends on how servers are numbered.

    References
    ----------
    Wang et al., "Communication Contention Aware Scheduling of Multiple Deep Learning Training
    Jobs", section 4.
    """

    opens_idle_links: ClassVar[bool] = True

    conflicts: str = "all"

    def __post_init__(self) -> None:
        choice("conflicts", self.conflicts, ("all", "first"))

    @property
    def name(self) -> str:
        """``ada_dual``, or ``ada_dual_as_written``."""
        return "ada_dual" if self.conflicts == "all" else "ada_dual_as_written"

    @property
    def opens_at_starts(self) -> bool:
        """Another transfer may become the first, and be larger."""
        return self.conflicts == "first"

    def decide(self, now_s: float, flow: Flow, links: LinksView) -> float:
        """Compare the transfer with those that it would share links with."""
        met: list[tuple[int, Flow]] = []
        for link in flow.links:
            on = links.on(link)
            if len(on) > 1:
                flow.waits_for = link
                return HOLD
            if on:
                met.append((link, on[0]))
        b, eta = links.s_per_byte, links.penalty_s_per_byte
        part = b / (2 * (b + eta)) * (1 - TIE)
        for link, other in met[:1] if self.conflicts == "first" else met:
            if flow.size >= part * other.left:
                flow.waits_for = link
                return HOLD
        return START


@dataclass(frozen=True)
class TimeShift:
    """Let a job's transfers start at its own times only: a shift, and every period after it.

    Parameters
    ----------
    shifts
        (shift, period) by job, seconds. Other jobs start at once.

    Raises
    ------
    InputError
        For a period that is not above 0, or a shift that is not within it.
    """

    opens_at_starts: ClassVar[bool] = False

    shifts: Mapping[int, tuple[float, float]]
    name: str = field(default="time_shift", init=False)

    @explained
    def __post_init__(self) -> None:
        for job, (shift_s, period_s) in self.shifts.items():
            number(f"The period of job {job}", period_s, strict=True)
            if not 0 <= shift_s < period_s:
                raise InputError(
                    f"The shift of job {job} is {shift_s!r}; valid: from 0 to below its period, "
                    f"{period_s:g} s."
                )

    def decide(self, now_s: float, flow: Flow, links: LinksView) -> float:
        """Return the job's next own time."""
        if flow.job not in self.shifts:
            return START
        shift_s, period_s = self.shifts[flow.job]
        turns = (now_s - shift_s) / period_s
        if abs(turns - round(turns)) * period_s <= TIE * max(1.0, now_s):
            return START
        return shift_s + math.ceil(turns) * period_s


@dataclass(frozen=True)
class AllOf:
    """Let a transfer start when several gates do.

    Parameters
    ----------
    gates
        Each may let it start, hold it, or name a time; the latest answer counts.
    """

    gates: tuple[Gate, ...]

    @property
    def name(self) -> str:
        """Names of all of them."""
        return " and ".join(gate.name for gate in self.gates)

    @property
    def opens_at_starts(self) -> bool:
        """Whether one of them does."""
        return any(getattr(gate, "opens_at_starts", True) for gate in self.gates)

    @property
    def opens_idle_links(self) -> bool:
        """Whether all of them do."""
        return all(getattr(gate, "opens_idle_links", False) for gate in self.gates)

    def knowing(self, jobs: JobTable) -> AllOf:
        """Return the same of gates that know the jobs of a run."""
        return AllOf(tuple(knowing(gate, jobs) for gate in self.gates))

    def decide(self, now_s: float, flow: Flow, links: LinksView) -> float:
        """Return the latest of the answers."""
        return max((gate.decide(now_s, flow, links) for gate in self.gates), default=START)


GATES: Registry[Gate] = Registry(
    "gate",
    "apportion.gates",
    {
        "always": AtMost(math.inf),
        **{gate.name: gate for n in (1, 2, 3) for gate in (AtMost(n), AtMost(n, "pair"))},
        "ada_dual": AdaDual(),
        "ada_dual_as_written": AdaDual("first"),
    },
    lambda value: isinstance(value, Gate) and not isinstance(value, type),
    "an object with a name and decide(now_s, flow, links)",
)
"""Gates by name; one of one's own is added by assigning it."""
