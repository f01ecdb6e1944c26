"""All-reduces of gangs in several servers: a and b by algorithm and number of servers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from apportion.checks import number
from apportion.sim.network.collectives import Cost, all_reduce_cost

if TYPE_CHECKING:
    from apportion.mechanisms import Iterations
    from apportion.sim.contention.iteration import Iteration
    from apportion.sim.network.link_sharing import LinkSharing

_MEASURED_ON = 2  # servers


@dataclass(frozen=True)
class AllReduces:
    """Startup and bytes of an all-reduce among so many servers, by Table I of Wang et al.

    Measured are a and b of a ring of two servers, of which the table makes the latency
    ``alpha = a / 2`` of a message and ``beta = b - gamma / 2`` seconds to send a byte. Among N
    servers a transfer of M bytes then starts up for a(N), and counts as ``b(N) / b M`` bytes on its
    links, so that others who share them slow it down by as much.

    Parameters
    ----------
    startup_s, s_per_byte
        a and b as measured.
    algorithm
        Out of `apportion.sim.network.ALL_REDUCES`; ``None`` for a and b among any number.
    add_s_per_byte
        gamma.
    """

    startup_s: float
    s_per_byte: float
    algorithm: str | None = None
    add_s_per_byte: float = 0.0
    _costs: dict[int, Cost] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        most = 2 * self.s_per_byte
        number("add_s_per_byte", self.add_s_per_byte, most=most)

    @classmethod
    def of(cls, mechanism: Iterations, sharing: LinkSharing) -> AllReduces:
        """Return those that settings ask for, where links are shared by a law."""
        startup_s, algorithm = getattr(sharing, "startup_s", 0.0), mechanism.all_reduce
        return cls(startup_s, sharing.s_per_byte, algorithm, mechanism.add_s_per_byte)

    def cost(self, servers: int) -> Cost:
        """Return a and b among so many servers."""
        if self.algorithm is None:
            return Cost(self.startup_s, self.s_per_byte)
        if servers not in self._costs:
            self._costs[servers] = all_reduce_cost(
                self.algorithm,
                servers,
                alpha_s=self.startup_s / _MEASURED_ON,
                beta_s=self.s_per_byte - self.add_s_per_byte / _MEASURED_ON,
                gamma_s=self.add_s_per_byte,
            )
        return self._costs[servers]

    def over(self, servers: int, iteration: Iteration) -> Iteration:
        """Return an iteration with its transfers as they are among so many servers."""
        if self.algorithm is None or servers < _MEASURED_ON:
            return iteration
        startup_s, s_per_byte = self.cost(servers)
        factor = s_per_byte / self.s_per_byte
        sends = (
            send._replace(size=send.size * factor, startup_s=startup_s) for send in iteration.sends
        )
        return iteration._replace(sends=tuple(sends))
