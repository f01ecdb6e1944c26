"""The life cycle of GPUs written a second time, by scanning everything at every moment."""

from __future__ import annotations

from typing import Any


class ScannedGpus:
    """One service per GPU, late binding; states are texts, GPUs are dictionaries."""

    def __init__(self, nodes: list[int], cold: dict[str, float], protect: list[float]) -> None:
        self.cold, self.protect, self.now = cold, protect, 0.0
        empty = {"state": "FREE", "service": None, "count": 0, "until": None, "since": 0.0}
        self.gpus: list[dict[str, Any]] = [{**empty, "node": node} for node in nodes]
        self.waiting: list[tuple[int, str, float]] = []
        self.served: list[tuple[int, int, float, float, float]] = []

    def advance(self, now: float) -> None:
        while due := self.due(now):
            self.now, _, number = min(due)
            gpu = self.gpus[number]
            if gpu["state"] == "RUNNING":
                until = self.now + self.protect[min(gpu["count"], len(self.protect) - 1)]
                gpu.update(state="PROTECTED", until=until)
            elif gpu["state"] == "PROTECTED":
                gpu.update(state="WARM", until=None, count=0, since=self.now)
            else:
                gpu.update(state="FREE", until=None, service=None)
            if not self.due(self.now):  # everything that ends at this time has ended
                self.serve()
        self.now = now

    def due(self, now: float) -> list[tuple[float, int, int]]:
        order = {"RUNNING": 0, "PROTECTED": 1, "LOANED": 2}
        return [
            (gpu["until"], order[gpu["state"]], number)
            for number, gpu in enumerate(self.gpus)
            if gpu["until"] is not None and gpu["until"] <= now
        ]

    def serve(self) -> None:
        for entry in list(self.waiting):
            number = self.choose(entry[1])
            if number is not None:
                self.waiting.remove(entry)
                self.start(number, *entry)

    def choose(self, service: str) -> int | None:
        states = [(gpu["state"], gpu["service"]) for gpu in self.gpus]
        mine = [n for n, s in enumerate(states) if s in [("PROTECTED", service), ("WARM", service)]]
        if mine:
            return min(
                mine, key=lambda n: (-self.gpus[n]["count"], self.gpus[n]["state"] == "WARM", n)
            )
        free = [n for n, (state, _) in enumerate(states) if state == "FREE"]
        loans = [gpu["node"] for gpu in self.gpus if gpu["state"] == "LOANED"]
        if free:
            nodes = [self.gpus[n]["node"] for n in range(len(self.gpus))]
            return min(free, key=lambda n: (loans.count(nodes[n]), nodes[n], n))
        warm = [n for n, (state, _) in enumerate(states) if state == "WARM"]
        return min(warm, key=lambda n: (self.gpus[n]["since"], n)) if warm else None

    def start(self, number: int, request: int, service: str, duration: float) -> None:
        gpu = self.gpus[number]
        count = gpu["count"] + 1 if (gpu["state"], gpu["service"]) == ("PROTECTED", service) else 0
        cold = 0.0 if gpu["service"] == service else self.cold[service]
        end = self.now + cold + duration
        gpu.update(state="RUNNING", service=service, count=count, until=end)
        self.served.append((request, number, self.now, cold, end))

    def request(self, now: float, request: int, service: str, duration: float) -> None:
        self.advance(now)
        self.waiting.append((request, service, duration))
        self.serve()

    def lend(self, now: float, number: int) -> None:
        self.advance(now)
        self.gpus[number].update(state="LOANED", service=None, until=None, count=0)

    def reclaim(self, now: float, number: int, yield_s: float) -> None:
        self.advance(now)
        self.gpus[number]["until"] = now + yield_s
        self.advance(now)
