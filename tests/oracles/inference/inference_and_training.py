"""Training on loaned GPUs beside requests, tick by tick, from the definition of DeepBoot.

The policy is a fixed rule: every so many ticks each job, the first before the others, has as many
GPUs as there are and as it may have, which is one, then twice the most that it ever had. Speeds
come from a table by GPUs and nodes, of each job. At a tick, in this order: jobs whose work is done
give their GPUs back; what `inference_life` does by itself; requests arrive; the rule decides, if it
is due; whoever has other GPUs than before pauses; the others train until the next tick.

A GPU is called back from the (job, node) whose loss changes the sum of speeds over those at a fair
share for the best, the first of those that are equal, and there it is the last GPU; the job leaves
it at once, and requests may have it once it has been left for `yields` ticks. A pause that begins
within another never ends sooner than that. Under EDL workers go on while new ones prepare for as
long as a restart takes, and then all wait for the broadcast.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.oracles.inference.inference_life import Life

if TYPE_CHECKING:
    from tests.oracles.inference.inference_life import Case

Table = dict[tuple[int, int], float]


@dataclass(frozen=True)
class Training:
    """Jobs: arrival, work, speeds by (GPUs, nodes); the ticks of a restart and of another ring.

    GPUs from `serving_from` on serve, and train as well if there is `lending`; the others train.
    """

    arrivals: tuple[int, ...]
    work: float
    speeds: tuple[Table, ...]
    restart: str
    first: int
    next: int
    interval: int
    per_node: int
    serving_from: int = 0
    lending: bool = True


class Both(Life):
    """One cluster; numbers of GPUs are those of `Case.nodes`."""

    def __init__(self, case: Case, training: Training) -> None:
        super().__init__(case)
        self.about = training
        self.jobs: list[dict[str, Any]] = [
            {
                **{"left": training.work, "held": [], "most": 0, "ready": 0, "end": None},
                **{"starts": 0, "prepare": [], "join": 0},
            }
            for _ in training.arrivals
        ]
        self.fair = [1.0] * len(self.jobs)
        self.edge = 0
        self.called: list[tuple[int, int, int]] = []  # tick, GPU, job
        self.paused = [0] * len(self.jobs)

    def live(self, most: int) -> None:
        """Follow both until all jobs and requests have ended, for at most so many ticks."""
        for now in range(most):
            before = [list(job["held"]) for job in self.jobs]
            was_active = [n for n in self.active(now - 1) if self.jobs[n]["end"] is None]
            ended = self.end_jobs(now)
            trained = any(before)
            self.settle(now)
            self.join(now)
            for index, ask in enumerate(self.case.asks):
                if ask.arrival == now:
                    self.waiting.append(index)
                    self.settle(now)
            idle = ended and trained and not any(job["held"] for job in self.jobs)
            if self.active(now) and (now >= self.edge or not was_active or idle):
                self.decide(now)
                self.edge = now + self.about.interval
            self.pause(now, before)
            self.lived.states.append([(g["state"], g["service"]) for g in self.gpus])
            self.train(now)
            if all(job["end"] is not None for job in self.jobs) and self.over(now):
                return
        raise AssertionError("The case lasts longer than it may.")

    def over(self, now: int) -> bool:
        asks = self.case.asks
        return len(self.lived.served) == len(asks) and all(
            end <= now for _, end, _, _ in self.lived.served.values()
        )

    def active(self, now: int) -> list[int]:
        """Jobs that are there and have not ended."""
        there = enumerate(self.about.arrivals)
        return [n for n, arrival in there if arrival <= now and self.jobs[n]["end"] is None]

    def serves(self, gpu: int) -> bool:
        """Whether a GPU serves requests at all."""
        return gpu >= self.about.serving_from

    def speed(self, n: int, held: list[int]) -> float:
        """Work of a job per tick on some GPUs."""
        if not held:
            return 0.0
        return self.about.speeds[n][len(held), len({self.case.nodes[g] for g in held})]

    def train(self, now: int) -> None:
        """Count the work from this tick to the next."""
        for n, job in enumerate(self.jobs):
            if job["held"] and now >= job["ready"]:
                job["left"] -= self.speed(n, [g for g in job["held"] if g not in job["prepare"]])
            elif job["held"]:
                self.paused[n] += 1

    def join(self, now: int) -> None:
        """Let new workers join that are ready: the job waits for the broadcast (EDL)."""
        for job in self.jobs:
            if job["prepare"] and job["join"] <= now:
                job.update(prepare=[], ready=max(job["ready"], now + self.about.next))

    def end_jobs(self, now: int) -> bool:
        """End the jobs whose work is done."""
        any_ended = False
        for job in self.jobs:
            if job["end"] is None and job["left"] <= 0:
                any_ended = True
                job["end"] = now
                for gpu in job["held"]:
                    self.gpus[gpu].update(state="free", service=None, count=0, until=None)
                job.update(held=[], prepare=[])
        return any_ended

    def victim(self, now: int, loaned: list[int]) -> int:
        """Return the GPU whose loss changes the sum of speed-ups for the best."""
        found: list[tuple[float, int]] = []
        for n, job in enumerate(self.jobs):
            for node in sorted({self.case.nodes[g] for g in job["held"] if g in loaned}):
                gpu = max(g for g in job["held"] if self.case.nodes[g] == node)
                rest = [g for g in job["held"] if g != gpu]
                change = self.speed(n, rest) - self.speed(n, job["held"])
                found.append((change / self.fair[n], gpu))
        best = max(change for change, _ in found)
        gpu = next(gpu for change, gpu in found if change >= best - 1e-9)
        assert gpu in loaned
        owner = next(n for n, job in enumerate(self.jobs) if gpu in job["held"])
        self.jobs[owner]["held"].remove(gpu)
        self.called.append((now, gpu, owner))
        return gpu

    def decide(self, now: int) -> None:
        """Give GPUs to jobs by the rule."""
        held = {gpu for job in self.jobs for gpu in job["held"]}
        there = {g for g, gpu in enumerate(self.gpus) if gpu["state"] in ("free", "warm")} | held
        if not self.about.lending:
            there -= set(range(self.about.serving_from, len(self.gpus)))
        active, left = self.active(now), len(there)
        share = -(-len(there) // len(active))
        wanted: dict[int, int] = {}
        for n in active:
            if there:
                self.fair[n] = self.about.speeds[n][share, -(-share // self.about.per_node)]
            wanted[n] = min(max(2 * self.jobs[n]["most"], 1), left)
            left -= wanted[n]
        moved = [n for n in active if wanted[n] != len(self.jobs[n]["held"])]
        if self.about.restart == "edl":
            moved = self.in_place(there, wanted, moved)
        for n in active:
            if n not in moved:
                there -= set(self.jobs[n]["held"])
        for n in sorted(moved, key=lambda n: (wanted[n], n)):
            self.jobs[n]["held"] = self.place(there, wanted[n])
            there -= set(self.jobs[n]["held"])
        after = {gpu for job in self.jobs for gpu in job["held"]}
        for gpu in after - held:
            self.gpus[gpu].update(state="loaned", service=None, count=0, until=None)
        for gpu in held - after:
            self.gpus[gpu].update(state="free", service=None, count=0, until=None)
        self.settle(now)

    def in_place(self, there: set[int], wanted: dict[int, int], moved: list[int]) -> list[int]:
        """Let jobs shrink and grow where they are; return those that must be placed anew (EDL).

        Who shrinks gives up GPUs that do not work yet, then those of the machines on which it has
        fewest. Who grows takes GPUs of its machines, that with most of its GPUs first, then of as
        few others as can be; on more machines than it must have it is placed anew.
        """
        node = self.case.nodes
        same = [n for n in moved if self.jobs[n]["held"] and wanted[n]]
        for n in [n for n in same if wanted[n] < len(self.jobs[n]["held"])]:
            job, on = self.jobs[n], Counter(node[g] for g in self.jobs[n]["held"])
            ranked = sorted(
                job["held"], key=lambda g: (g in job["prepare"], -on[node[g]], node[g], g)
            )
            job["held"] = sorted(ranked[: wanted[n]])
            moved = [m for m in moved if m != n]
        for n in [n for n in moved if n not in same]:
            self.jobs[n]["held"] = []
        grown = [n for n in same if n in moved]
        for n in sorted(grown, key=lambda n: (wanted[n], n)):
            held = self.jobs[n]["held"]
            free = there - {g for job in self.jobs for g in job["held"]}
            on = Counter(node[g] for g in held)
            mine = sorted(
                (g for g in free if on[node[g]]), key=lambda g: (-on[node[g]], node[g], g)
            )
            new = mine[: wanted[n] - len(held)]
            rest = wanted[n] - len(held) - len(new)
            others = {g for g in free if not on[node[g]]}
            if rest > len(others):
                continue
            new += self.place(others, rest)
            if len({node[g] for g in [*held, *new]}) <= -(-wanted[n] // self.about.per_node):
                self.jobs[n]["held"] = sorted([*held, *new])
                moved = [m for m in moved if m != n]
        return moved

    def place(self, there: set[int], count: int) -> list[int]:
        """The node with the fewest GPUs that hold all the rest, else all of the one with most."""
        free, chosen = set(there), []
        while count:
            on = Counter(self.case.nodes[g] for g in free)
            enough = [node for node in sorted(on) if on[node] >= count]
            node = (
                min(enough, key=lambda each: (on[each], each))
                if enough
                else min(on, key=lambda each: (-on[each], each))
            )
            taken = sorted(g for g in free if self.case.nodes[g] == node)[:count]
            chosen += taken
            free -= set(taken)
            count -= len(taken)
        return sorted(chosen)

    def pause(self, now: int, before: list[list[int]]) -> None:
        """Let those pause that have other GPUs than before."""
        for job, old in zip(self.jobs, before, strict=True):
            new = job["held"]
            job["most"] = max(job["most"], len(new))
            if new and set(new) != set(old):
                job["starts"] += 1
                running = job["ready"] if old else 0
                lost = self.lost(len(old), len(new))
                if self.about.restart == "edl":
                    lost = self.prepare(now, job, old)
                job["ready"] = max(now + lost, running)

    def prepare(self, now: int, job: dict[str, Any], old: list[int]) -> int:
        """Note who prepares while others go on; the ticks of a pause, none if any go on (EDL)."""
        worked = set(old) - set(job["prepare"])
        new = [g for g in job["held"] if g not in worked]
        if len(new) == len(job["held"]):
            job["prepare"] = []
            return self.about.first
        if not set(new) <= set(job["prepare"]):
            job["join"] = now + self.about.first
        job["prepare"] = new
        return 0

    def lost(self, old: int, new: int) -> int:
        """Ticks of a pause."""
        first, shrink = self.about.first, self.about.next
        if self.about.restart == "stop_resume" or old in (0, new):
            return first
        if new < old:
            return shrink
        ticks = self.about.interval // 60
        seconds = (first - shrink) // ticks * (new - old) // new
        return shrink + seconds * ticks
