"""Training beside requests written a second time: dictionaries, every event looked for anew.

One type of GPU, all of them pooled; late binding; jobs of equal shape. The policy gives GPUs to
jobs in their order, to each as many as it may have: 1, then at most twice what it ever had.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.mechanism.inference.by_scanning import ScannedGpus

if TYPE_CHECKING:
    from collections.abc import Callable

EPS = 1e-9


class Cosimulation:
    """Jobs are (arrival, work); requests (arrival, service, duration); `speed` by GPUs and nodes.

    `pause` tells the seconds of a pause by GPUs before and after, `yield_s` how long a GPU is left
    for. `model_speed` is what is believed of speeds, by which GPUs are called back.
    """

    def __init__(
        self,
        nodes: list[int],
        jobs: list[tuple[float, float]],
        requests: list[tuple[float, str, float]],
        *,
        cold: dict[str, float],
        protect: list[float],
        speed: Callable[[int, int], float],
        pause: Callable[[int, int], float],
        yield_s: float,
        interval_s: float = 60.0,
    ) -> None:
        self.nodes, self.speed, self.pause = nodes, speed, pause
        self.yield_s, self.interval_s = yield_s, interval_s
        self.gpus = ScannedGpus(nodes, cold, protect)
        self.requests, self.now, self.edge, self.fair = requests, 0.0, 0.0, 1
        self.jobs: list[dict[str, Any]] = [
            {"arrival": a, "left": w, "held": [], "ready": 0.0, "most": 0, "end": None, "n": 0}
            for a, w in jobs
        ]
        self.reclaims: list[tuple[float, int, int]] = []

    def run(self) -> None:
        told, came = 0, set[int]()
        while True:
            t = self._next(told, came)
            if t == float("inf"):
                return
            self._progress(t)
            self.gpus.advance(t)
            idle = not self._active(came)
            trained = any(job["held"] for job in self.jobs)
            done = self._finish()
            came |= {n for n, job in enumerate(self.jobs) if job["arrival"] <= t}
            while told < len(self.requests) and self.requests[told][0] <= t:
                arrival, service, duration = self.requests[told]
                self.gpus.request(arrival, told, service, duration)
                told += 1
            training = any(job["held"] for job in self.jobs)
            before = [list(job["held"]) for job in self.jobs]
            self._call_back(t)
            active = self._active(came)
            early = idle or (done and trained and not training)
            if active and (early or t >= self.edge - EPS):
                self._interval(t, active)
                self.edge = t + self.interval_s
            self._price(t, before)

    def _active(self, came: set[int]) -> list[int]:
        return [n for n in sorted(came) if self.jobs[n]["end"] is None]

    def _next(self, told: int, came: set[int]) -> float:
        times = [gpu["until"] for gpu in self.gpus.gpus if gpu["until"] is not None]
        times += [request[0] for request in self.requests[told : told + 1]]
        times += [job["arrival"] for n, job in enumerate(self.jobs) if n not in came]
        times += [self._end(job) for job in self.jobs if job["held"]]
        if self._active(came):
            times.append(self.edge)
        return min(times, default=float("inf"))

    def _rate(self, job: dict[str, Any]) -> float:
        return self.speed(len(job["held"]), len({self.nodes[g] for g in job["held"]}))

    def _end(self, job: dict[str, Any]) -> float:
        return float(max(self.now, job["ready"]) + job["left"] / self._rate(job))

    def _progress(self, t: float) -> None:
        for job in self.jobs:
            if job["held"]:
                worked = max(t - max(self.now, job["ready"]), 0.0)
                job["left"] -= worked * self._rate(job)
        self.now = t

    def _finish(self) -> bool:
        done = [job for job in self.jobs if job["held"] and job["left"] <= EPS]
        for job in done:
            self._back(job["held"])
            job.update(held=[], end=self.now)
        return bool(done)

    def _back(self, held: list[int]) -> None:
        for gpu in held:
            self.gpus.gpus[gpu].update(state="FREE", until=None, service=None)
        self.gpus.serve()

    def _call_back(self, t: float) -> None:
        while True:
            states = self.gpus.gpus
            coming = sum(g["state"] == "LOANED" and g["until"] is not None for g in states)
            cells = sorted(
                {(n, self.nodes[g]) for n, job in enumerate(self.jobs) for g in job["held"]}
            )
            if len(self.gpus.waiting) <= coming or not cells:
                return
            changes = [self._change(*cell) for cell in cells]
            best = max(changes)
            first = next(c for c, v in zip(cells, changes, strict=True) if v >= best - EPS)
            n, node = first
            gpu = max(g for g in self.jobs[n]["held"] if self.nodes[g] == node)
            self.jobs[n]["held"].remove(gpu)
            self.reclaims.append((t, gpu, n))
            self.gpus.reclaim(t, gpu, self.yield_s)

    def _change(self, n: int, node: int) -> float:
        held = self.jobs[n]["held"]
        gone = max(g for g in held if self.nodes[g] == node)
        left = [self.nodes[g] for g in held if g != gone]
        fair = self.speed(self.fair, -(-self.fair // self.nodes.count(0)))
        after = self.speed(len(left), len(set(left))) if left else 0.0
        return (after - self._rate(self.jobs[n])) / fair

    def _interval(self, t: float, active: list[int]) -> None:
        held = {g for job in self.jobs for g in job["held"]}
        states = [gpu["state"] for gpu in self.gpus.gpus]
        open_ = {g for g, s in enumerate(states) if g in held or s in ("FREE", "WARM")}
        self.fair = -(-len(open_) // len(active)) if open_ else self.fair
        wanted, left = {}, len(open_)
        for n in active:
            most = 2 * self.jobs[n]["most"] if self.jobs[n]["most"] else 1
            wanted[n] = min(most, left)
            left -= wanted[n]
        before = {n: self.jobs[n]["held"] for n in active}
        stay = {g for n in active if wanted[n] == len(before[n]) for g in before[n]}
        free = open_ - stay
        new = [n for n in active if wanted[n] != len(before[n])]
        for n in sorted(new, key=lambda n: (wanted[n], n)):
            self.jobs[n]["held"] = self._pack(free, wanted[n])
            free -= set(self.jobs[n]["held"])
        now_held = {g for job in self.jobs for g in job["held"]}
        for gpu in sorted(now_held - held):
            self.gpus.lend(t, gpu)
        self._back(sorted(held - now_held))

    def _pack(self, free: set[int], count: int) -> list[int]:
        chosen: list[int] = []
        while len(chosen) < count:
            on = {
                m: sorted(g for g in free if self.nodes[g] == m and g not in chosen)
                for m in sorted(set(self.nodes))
            }
            left = count - len(chosen)
            fits = [m for m in on if len(on[m]) >= left]
            fullest = max(on, key=lambda m: len(on[m]))
            machine = min(fits, key=lambda m: len(on[m])) if fits else fullest
            chosen += on[machine][:left]
        return chosen

    def _price(self, t: float, before: list[list[int]]) -> None:
        for job, old in zip(self.jobs, before, strict=True):
            if job["held"] and job["held"] != old:
                pause = self.pause(len(old), len(job["held"]))
                left = job["ready"] - t if old else 0.0
                job["ready"] = t + max(pause, left)
                job["n"] += 1
            job["most"] = max(job["most"], len(job["held"]))
