"""Gates by name: at most so many transfers on a link, AdaDUAL, time shifts."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, ClassVar

from apportion.annotations import explained
from apportion.checks import choice, number, whole
from apportion.errors import InputError
from apportion.mechanism.gates.gate import (
    HOLD,
    START,
    Gate,
    Rollout,
    knowing,
    next_turn,
    small_beside,
)
from apportion.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from apportion.mechanism.gates.gate import Flow, LinksView
    from apportion.mechanism.job_table import JobTable


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
    sees_own_links_only: ClassVar[bool] = True

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
        if self.counted_by == "pair":
            return START if _most_on_a_pair(flow, links) < self.transfers else HOLD
        for link in flow.links:
            if len(links.on(link)) >= self.transfers:
                return HOLD
        return START


def _most_on_a_pair(flow: Flow, links: LinksView) -> int:
    """Return the most transfers under way that use the same two links of a transfer."""
    on = [{other.job for other in links.on(link)} for link in flow.links]
    return max((len(one & other) for one, other in combinations(on, 2)), default=0)


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

    sees_own_links_only: ClassVar[bool] = True

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
        met: list[Flow] = []
        for link in flow.links:
            on = links.on(link)
            if len(on) > 1:
                return HOLD
            met += on
        if self.conflicts == "first":
            met = met[:1]
        b, eta = links.s_per_byte, links.penalty_s_per_byte
        small = all(small_beside(flow.size, other.left, b, eta) for other in met)
        return START if small else HOLD


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
        return next_turn(now_s, *self.shifts[flow.job])


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
    def sees_own_links_only(self) -> bool:
        """Whether all of them do."""
        return all(getattr(gate, "sees_own_links_only", False) for gate in self.gates)

    def knowing(self, jobs: JobTable) -> AllOf:
        """Return the same of gates that know the jobs of a run."""
        return AllOf(tuple(knowing(gate, jobs) for gate in self.gates))

    def decide(self, now_s: float, flow: Flow, links: LinksView) -> float:
        """Return the latest of the answers."""
        answers: Iterable[float] = (gate.decide(now_s, flow, links) for gate in self.gates)
        return max(answers, default=START)


GATES: Registry[Gate] = Registry(
    "gate",
    "apportion.gates",
    {
        "always": AtMost(math.inf),
        **{gate.name: gate for n in (1, 2, 3) for gate in (AtMost(n), AtMost(n, "pair"))},
        "ada_dual": AdaDual(),
        "ada_dual_as_written": AdaDual("first"),
        "rollout": Rollout(),
    },
    lambda value: isinstance(value, Gate) and not isinstance(value, type),
    "an object with a name and decide(now_s, flow, links)",
)
"""Gates by name; one of one's own is added by assigning it."""
