"""Jobs as iterations on shared GPUs and links, followed from event to event in fractions.

A job has n workers, one per GPU. In each iteration every worker computes forward, then backward;
when all have, an all-reduce of ``size`` bytes follows if the job spans servers; when it has ended
the next iteration begins (a barrier), after the last one the job has finished.

* A GPU computes one task at a time and never interrupts it; jobs are resident by memory. An idle
  GPU takes the ready task of the resident job with the least remaining service.
* A transfer occupies a link per server of its job (and per rack, if it spans racks): Eq 5.
* At one instant, over and over until nothing more is due: ends of tasks and transfers; barriers
  and finished jobs; placement of waiting jobs by ascending (t_f + t_b) I n, passing over those
  that do not fit; gates in order of remaining service; idle GPUs.
* Remaining service is (t_f + t_b [+ a + b M over servers]) n times the iterations not yet done.
  L_g is the sum of the same over the jobs on g. Ties go to the earlier arrival, then the name.

Slow and literal: every quantity is looked up anew at every event.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

from tests.oracles.least_workload import Gpus, Servers
from tests.oracles.shared_links import Law, LinkName, Network
from tests.oracles.transfer_gates import Asking, Gate


class StandstillError(Exception):
    """Jobs are left and nothing will ever happen."""


@dataclass(frozen=True)
class Job:
    """A job; ``fixed`` are GPUs that it must have (placed when all are available)."""

    name: int
    arrival: Fraction
    n: int
    forward: Fraction
    backward: Fraction
    size: Fraction
    iterations: int
    memory: Fraction = Fraction(0)
    fixed: Gpus | None = None


@dataclass(frozen=True)
class Cluster:
    """Servers of GPUs numbered throughout; rack of every server, if racks are links too."""

    gpus: tuple[int, ...]
    memory: Fraction = Fraction(1)
    rack_of: tuple[int, ...] | None = None

    @property
    def server_of(self) -> list[int]:
        """Server of every GPU."""
        return [s for s, n in enumerate(self.gpus) for _ in range(n)]

    def links(self, gpus: Gpus) -> tuple[LinkName, ...]:
        """Links of a job in the order of its GPUs: none on one server."""
        servers = list(dict.fromkeys(self.server_of[g] for g in gpus))
        if len(servers) < 2:
            return ()
        racks = dict.fromkeys(self.rack_of[s] for s in servers) if self.rack_of else {}
        return (*servers, *(f"rack {r}" for r in racks if len(racks) > 1))


Place = Callable[[Servers, Job], Gpus | None]


def at_fixed(servers: Servers, job: Job) -> Gpus | None:
    """Place a job on the GPUs that it names."""
    free = servers.available(job.memory)
    return job.fixed if job.fixed and all(g in free for g in job.fixed) else None


@dataclass(frozen=True)
class Rules:
    """How transfers share, begin, and how jobs are placed and ordered.

    ``exclusive`` GPUs have one resident; ``network_counts`` puts E into the remaining service that
    orders tasks and transfers; ``load`` is what L_g has of a resident job: "remaining", "whole"
    (all of L_J until it ends), with E if it spans servers, times n; "seconds": "remaining", not
    times n.
    """

    law: Law
    gate: Gate
    place: Place = at_fixed
    exclusive: bool = False
    network_counts: bool = True
    load: str = "remaining"


@dataclass(frozen=True)
class Task:
    """A forward or backward on a GPU."""

    gpu: int
    job: int
    iteration: int
    kind: str
    start: Fraction
    end: Fraction


@dataclass(frozen=True)
class Sent:
    """An all-reduce: when ready, begun and ended, its bytes and the greatest k that it met."""

    job: int
    iteration: int
    ready: Fraction
    start: Fraction
    end: Fraction
    size: Fraction
    most: int


@dataclass
class Outcome:
    """When jobs were placed, where, and finished; all tasks and transfers by end."""

    placed: dict[int, Fraction] = field(default_factory=dict)
    gpus: dict[int, Gpus] = field(default_factory=dict)
    finished: dict[int, Fraction] = field(default_factory=dict)
    tasks: list[Task] = field(default_factory=list)
    sent: list[Sent] = field(default_factory=list)


@dataclass
class _State:
    """A placed job: iterations done, phase of each worker (0, 1, 2 at the barrier), transfer."""

    job: Job
    gpus: Gpus
    links: tuple[LinkName, ...]
    done: int = 0
    phase: dict[int, int] = field(default_factory=dict)
    ready: Fraction | None = None
    begun: Fraction | None = None
    most: int = 0


class Simulation:
    """One run; ``run`` returns what happened."""

    def __init__(self, cluster: Cluster, jobs: list[Job], rules: Rules) -> None:
        self.cluster, self.rules, self.now = cluster, rules, Fraction(0)
        self.todo, self.queue = sorted(jobs, key=lambda j: (j.arrival, j.name)), list[Job]()
        self.states: dict[int, _State] = {}
        self.busy: dict[int, Task] = {}
        self.net, self.out = Network(rules.law), Outcome()

    def run(self) -> Outcome:
        """Go on until every job has finished."""
        while True:
            self._settle()
            steps = [task.end - self.now for task in self.busy.values()]
            steps += [job.arrival - self.now for job in self.todo[:1]]
            change = self.net.until_change()
            steps += [] if change is None else [change]
            if not steps:
                break
            self.net.advance(min(steps))
            self.now += min(steps)
        if self.queue or self.states:
            left = sorted([j.name for j in self.queue] + list(self.states))
            raise StandstillError(f"jobs {left} wait for ever from {self.now} s on")
        return self.out

    def _settle(self) -> None:
        again = True
        while again:
            self._end_tasks()
            self._end_transfers()
            self._pass_barriers()
            self._place()
            self._ask()
            self._dispatch()
            again = any(task.end == self.now for task in self.busy.values())
            again = again or any(t.over for t in self.net.running)

    def _end_tasks(self) -> None:
        for gpu, task in sorted(self.busy.items()):
            if task.end == self.now:
                del self.busy[gpu]
                self.out.tasks.append(task)
                self.states[task.job].phase[gpu] += 1

    def _end_transfers(self) -> None:
        for t in self.net.take_ended():
            s = self.states[t.owner]
            ready, begun = s.ready or Fraction(0), s.begun or Fraction(0)
            self.out.sent.append(Sent(t.owner, s.done, ready, begun, self.now, s.job.size, s.most))
            self._next_iteration(s)

    def _pass_barriers(self) -> None:
        for s in list(self.states.values()):
            if s.ready is None and all(p == 2 for p in s.phase.values()):
                if s.links:
                    s.ready = self.now
                else:
                    self._next_iteration(s)

    def _next_iteration(self, s: _State) -> None:
        s.done, s.ready, s.begun, s.most = s.done + 1, None, None, 0
        s.phase = dict.fromkeys(s.gpus, 0)
        if s.done == s.job.iterations:
            del self.states[s.job.name]
            self.out.finished[s.job.name] = self.now

    def _place(self) -> None:
        while self.todo and self.todo[0].arrival <= self.now:
            self.queue.append(self.todo.pop(0))
        for job in sorted(self.queue, key=_queue_key):
            gpus = self.rules.place(self.servers(), job)
            if gpus is not None:
                self.queue.remove(job)
                links = self.cluster.links(gpus)
                self.states[job.name] = _State(job, gpus, links, phase=dict.fromkeys(gpus, 0))
                self.out.placed[job.name], self.out.gpus[job.name] = self.now, gpus

    def servers(self) -> Servers:
        """What a placement sees: L_g and free memory; -1 is a GPU taken by an exclusive job."""
        load = [Fraction(0)] * sum(self.cluster.gpus)
        free = [self.cluster.memory] * sum(self.cluster.gpus)
        for s in self.states.values():
            for g in s.gpus:
                left = self._service(s, with_network=True, whole=self.rules.load == "whole")
                load[g] += left / s.job.n if self.rules.load == "seconds" else left
                free[g] = Fraction(-1) if self.rules.exclusive else free[g] - s.job.memory
        ends = [sum(self.cluster.gpus[: i + 1]) for i in range(len(self.cluster.gpus))]
        cuts = list(zip([0, *ends[:-1]], ends, strict=True))
        return Servers([load[a:b] for a, b in cuts], [free[a:b] for a, b in cuts])

    def _service(self, s: _State, *, with_network: bool, whole: bool = False) -> Fraction:
        one = s.job.forward + s.job.backward
        if s.links and with_network:
            one += self.rules.law.seconds(s.job.size)
        return one * s.job.n * (s.job.iterations - (0 if whole else s.done))

    def _order(self, s: _State) -> tuple[Fraction, Fraction, int]:
        service = self._service(s, with_network=self.rules.network_counts)
        return service, s.job.arrival, s.job.name

    def _ask(self) -> None:
        waiting = [s for s in self.states.values() if s.ready is not None and s.begun is None]
        for s in sorted(waiting, key=self._order):
            if self.rules.gate(self.net, Asking(s.job.name, s.links, s.job.size)):
                self.net.start(s.job.name, s.links, s.job.size)
                s.begun = self.now
        for t in self.net.running:
            state = self.states[t.owner]
            state.most = max(state.most, self.net.k(t))

    def _dispatch(self) -> None:
        for gpu in range(sum(self.cluster.gpus)):
            ready = [s for s in self.states.values() if s.phase.get(gpu, 2) < 2]
            if gpu in self.busy or not ready:
                continue
            s = min(ready, key=self._order)
            kind = "forward" if s.phase[gpu] == 0 else "backward"
            length = s.job.forward if kind == "forward" else s.job.backward
            self.busy[gpu] = Task(gpu, s.job.name, s.done, kind, self.now, self.now + length)


def _queue_key(job: Job) -> tuple[Fraction, Fraction, int]:
    return (job.forward + job.backward) * job.iterations * job.n, job.arrival, job.name


def simulate(cluster: Cluster, jobs: list[Job], rules: Rules) -> Outcome:
    """Run jobs to their ends; StandstillError where something waits for ever."""
    return Simulation(cluster, jobs, rules).run()
