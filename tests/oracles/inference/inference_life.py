"""The life of GPUs that serve requests, tick by tick, from its definition (Chen et al., TPDS 2023).

Times are whole ticks. At each tick, in this order and until nothing changes: requests end,
protection ends, GPUs that training was asked for arrive, waiting requests are served (who waits
longest first). Then GPUs are given back and lent, and then requests arrive one at a time.

A request takes (1) a GPU with its service loaded, most requests in a row first, (2) a free GPU on
the node with the fewest loans, (3) the GPU that has been warm longest with another service; else
it waits and the first loaned GPU is called back for it. Ties go to protected before warm, then to
the first node and GPU.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Ask:
    """One request: arrival and duration in ticks."""

    arrival: int
    service: str
    duration: int


@dataclass(frozen=True)
class Case:
    """Requests, GPUs (node of each), the rules, and when training takes and leaves GPUs."""

    asks: tuple[Ask, ...]
    nodes: tuple[int, ...]
    cold: dict[str, int]
    first: int = 30
    step: int = 15
    most: int = 120
    yields: int = 0
    loans: tuple[tuple[int, int], ...] = ()
    returns: tuple[tuple[int, int], ...] = ()


@dataclass
class Lived:
    """Start, end, GPU, ticks of the cold start of each request; (state, service) of each GPU."""

    served: dict[int, tuple[int, int, int, int]] = field(default_factory=dict)
    states: list[list[tuple[str, str | None]]] = field(default_factory=list)
    reclaims: list[tuple[int, int]] = field(default_factory=list)


class Life:
    """GPUs as dictionaries: state, service, count, until (end of what goes on), since (warm)."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.gpus: list[dict[str, Any]] = [
            {"state": "free", "service": None, "count": 0, "until": None, "since": 0}
            for _ in case.nodes
        ]
        self.waiting: list[int] = []
        self.lived = Lived()

    def run(self, ticks: int) -> Lived:
        """Follow the case for so many ticks and return what happened."""
        for now in range(ticks):
            self.settle(now)
            self.training(now)
            for index, ask in enumerate(self.case.asks):
                if ask.arrival == now:
                    self.waiting.append(index)
                    self.settle(now)
            self.lived.states.append([(g["state"], g["service"]) for g in self.gpus])
        return self.lived

    def settle(self, now: int) -> None:
        """Repeat what happens by itself at a tick until nothing changes."""
        changed = True
        while changed:
            changed = self.ends(now)
            while self.serve(now):
                changed = True
            changed = self.call_back(now) or changed

    def ends(self, now: int) -> bool:
        """End requests, protection and yielding whose time is up."""
        any_ended = False
        for gpu in self.gpus:
            while gpu["until"] is not None and gpu["until"] <= now:
                any_ended = True
                if gpu["state"] == "running":
                    case = self.case
                    length = min(case.first + gpu["count"] * case.step, case.most)
                    gpu.update(state="protected", until=now + length)
                elif gpu["state"] == "protected":
                    gpu.update(state="warm", count=0, until=None, since=now)
                else:
                    gpu.update(state="free", service=None, count=0, until=None)
        return any_ended

    def serve(self, now: int) -> bool:
        """Start every waiting request that some GPU may take, who waits longest first."""
        any_started = False
        for index in list(self.waiting):
            gpu = self.choice(self.case.asks[index].service)
            if gpu is not None:
                self.start(now, index, gpu)
                any_started = True
        return any_started

    def choice(self, service: str) -> int | None:
        """GPU that a request of a service takes now."""
        numbers = [g for g in range(len(self.gpus)) if self.serves(g)]
        same = [
            g
            for g in numbers
            if self.gpus[g]["state"] in ("protected", "warm") and self.gpus[g]["service"] == service
        ]
        if same:
            return min(
                same, key=lambda g: (-self.gpus[g]["count"], self.gpus[g]["state"] == "warm", g)
            )
        free = [g for g in numbers if self.gpus[g]["state"] == "free"]
        if free:
            nodes = self.case.nodes
            return min(free, key=lambda g: (self.loans_on(nodes[g]), nodes[g], g))
        warm = [g for g in numbers if self.gpus[g]["state"] == "warm"]
        return min(warm, key=lambda g: (self.gpus[g]["since"], g)) if warm else None

    def loans_on(self, node: int) -> int:
        """Number of GPUs of a node that train."""
        pairs = zip(self.case.nodes, self.gpus, strict=True)
        return sum(n == node and g["state"] == "loaned" for n, g in pairs)

    def start(self, now: int, index: int, number: int) -> None:
        """Put a request on a GPU."""
        ask, gpu = self.case.asks[index], self.gpus[number]
        cold = gpu["service"] != ask.service
        count = gpu["count"] + 1 if gpu["state"] == "protected" else 0
        load = self.case.cold[ask.service] if cold else 0
        end = now + load + ask.duration
        gpu.update(state="running", service=ask.service, count=count, until=end)
        self.waiting.remove(index)
        self.lived.served[index] = (now, end, number, load)

    def call_back(self, now: int) -> bool:
        """Ask training for a GPU for each waiting request that none is on its way for."""
        coming = [g for g in self.gpus if g["state"] == "loaned" and g["until"] is not None]
        loaned = [
            n
            for n, g in enumerate(self.gpus)
            if g["state"] == "loaned" and g["until"] is None and self.serves(n)
        ]
        if len(self.waiting) <= len(coming) or not loaned:
            return False
        number = self.victim(now, loaned)
        self.gpus[number]["until"] = now + self.case.yields
        self.lived.reclaims.append((now, number))
        return True

    def serves(self, gpu: int) -> bool:
        """Whether a GPU serves requests at all."""
        return True

    def victim(self, now: int, loaned: list[int]) -> int:
        """Return which of the loaned GPUs is called back."""
        return loaned[0]

    def training(self, now: int) -> None:
        """Give back and lend the GPUs that the case says, where their states let it."""
        for number in [g for tick, g in self.case.returns if tick == now]:
            gpu = self.gpus[number]
            if gpu["state"] == "loaned" and gpu["until"] is None:
                gpu.update(state="free", service=None, count=0)
                self.settle(now)
        for number in [g for tick, g in self.case.loans if tick == now]:
            gpu = self.gpus[number]
            if gpu["state"] in ("free", "warm"):
                gpu.update(state="loaned", service=None, count=0, until=None)
                self.settle(now)
