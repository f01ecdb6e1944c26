"""Jobs that share GPUs and links, event by event: the engine of iterations.

A job goes through the same iteration again and again: each of its workers computes task after
task, and the job sends transfer after transfer over its links. Time is continuous; nothing happens
between events::

    Iteration --> Job --ready--> GPUs (least key first) --tasks end--> barrier passed?
     tasks,        ^                                                       |
     sends         |                                                    Transfer
                   |                                                       |
        next iteration <--last byte-- links (LinkSharing) <--START-- Gate

What happens in one instant has one order (Wang et al., Algorithm 3): tasks and transfers end, and
with them iterations and jobs; GPUs of jobs that are done get free, and jobs that have arrived are
placed; gates are asked; links are shared anew if transfers have come or gone; idle GPUs take their
next tasks. So `LinkEngine.run` ends where somebody decides, between the second step and the third:
it takes in what ends at the time to which it is to run, and leaves all that begins then to the
next call, which sees the jobs that have come.

A leap makes one event of iterations that nothing can come between: of a job alone on its GPUs and
links, or of one that sends nothing and goes before all others on its GPUs. Whoever comes ends it.
"""

from __future__ import annotations

import math
from bisect import insort
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from apportion.checks import is_number
from apportion.errors import InputError, SolveError, written
from apportion.mechanism.gates import Flow
from apportion.sim.network.link_sharing import SharedCost, check_there, checked_rates

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from apportion.mechanism.gates import Gate
    from apportion.sim.links.iteration import Iteration, Send
    from apportion.sim.links.record import Watch
    from apportion.sim.network.link_sharing import LinkSharing
    from apportion.types import Floats, Ints


INSTANT_S = 1e-9
"""Events that are less apart are one instant: ties of sums of seconds must not hang on rounding."""

IN_VAIN = 100_000
"""Times in a row that a gate may put off its answer while nothing else happens."""

NEW = -1
"""No link: transfers wait for it that the gate has not been asked about."""

_FEW = 4
"""Up to so many transfers under way, to look at all is quicker than to find out at which."""

Turn = tuple[int, int]
"""Whose turn it is on GPUs and at the gate: the least of ``first * iterations left + second``,
of equal ones the lower job. Whole numbers, so that no turn hangs on rounding."""


def instant_s(now_s: float, least_s: float = INSTANT_S) -> float:
    """Return how far ahead events are still of this instant."""
    return max(least_s, now_s * 2.0**-47)


class SoFar(NamedTuple):
    """What jobs have done on the GPUs that they have.

    Attributes
    ----------
    left
        Iterations that are not over, shape (jobs,), as the others.
    computed_s
        GPU-seconds of the tasks that are over.
    sent
        Bytes that had moved when the rates of the jobs were last looked at.
    """

    left: Floats
    computed_s: Floats
    sent: Floats


class Leap(NamedTuple):
    """Iterations that are one event: since when, how long each, bytes/s of its transfer."""

    since_s: float
    each_s: float
    rate: float


class Job:
    """A job that has GPUs; `key` says whose turn it is, the least first."""

    __slots__ = (
        *("number", "iteration", "left", "gpus", "links", "turn", "key", "done", "sent", "lag"),
        *("transfer", "computed_s", "moved", "here", "leap"),
    )

    def __init__(
        self,
        number: int,
        iteration: Iteration,
        times: int,
        gpus: list[int],
        links: tuple[int, ...],
        turn: Turn,
    ) -> None:
        self.number, self.iteration, self.left = number, iteration, times
        self.gpus, self.links, self.turn = gpus, links, turn
        self.done = [0] * len(gpus)  # tasks of this iteration, by worker
        self.sent = 0  # transfers of this iteration
        self.lag = 0  # workers that have yet to come to the next barrier
        self.transfer: Transfer | None = None
        self.computed_s = self.moved = 0.0
        self.here = True
        self.leap: Leap | None = None
        self.key = self.key_with(times)

    def key_with(self, left: int) -> tuple[int, int]:
        """Return whose turn it is with so many iterations left."""
        first, second = self.turn
        return first * left + second, self.number

    def barrier(self) -> int:
        """Return the tasks that all workers must have done to go on."""
        sends = self.iteration.sends
        return sends[self.sent].after if self.sent < len(sends) else len(self.iteration.gpu_s)


class Transfer(Flow):
    """A transfer that waits or is under way."""

    __slots__ = ("clock", "promised", "rate", "sender", "since_s", "stamp", "startup_s")

    def __init__(self, sender: Job, send: Send, clock: LinkEngine) -> None:
        super().__init__(sender.number, sender.links, send.size, send.size, send.most)
        self.sender, self.startup_s, self.clock = sender, send.startup_s, clock
        self.rate, self.since_s = 0.0, math.inf  # no byte moves before `since_s` is finite,
        self.promised = 0.0  # and then at this rate
        self.stamp = 0  # events of other stamps are void
        self.waits_for = NEW

    @property
    def left(self) -> float:
        """Bytes still to go."""
        if not self.rate:
            return self._left
        return self._left - self.rate * (self.clock.now_s - self.since_s)

    def goes_at(self, rate: float, now_s: float) -> float:
        """Take down that it goes on at another rate; return when its last byte moves."""
        if self.rate:
            moved = self.rate * (now_s - self.since_s)
            self.sender.moved += moved
            self._left = max(self._left - moved, 0.0)
        self.rate, self.since_s = rate, now_s
        self.stamp += 1
        return now_s + self._left / rate if rate else math.inf


class LinkEngine:
    """Lets iterations run on GPUs and links; as gates see them, it is a `LinksView`.

    Parameters
    ----------
    gpus, links
        How many there are.
    sharing
        How transfers share links.
    gate
        When they may start.
    watch
        Takes down who computes and who sends, if anybody wants to know; nobody leaps then.
    names
        What users call the jobs, by number, for errors; by default their numbers.

    Attributes
    ----------
    now_s
        The instant, seconds.
    events
        Ends of tasks and transfers so far.
    on_link
        Transfers under way on each link.
    """

    least_instant_s = INSTANT_S

    def __init__(
        self,
        gpus: int,
        links: int,
        sharing: LinkSharing,
        gate: Gate,
        watch: Watch | None = None,
        names: Sequence[object] = (),
    ) -> None:
        check = getattr(sharing, "check", None)  # a law of one's own need not have it
        if check is not None:
            check(links)
        self.sharing, self.gate, self._watch, self._names = sharing, gate, watch, names
        self.s_per_byte, self.penalty_s_per_byte = sharing.s_per_byte, sharing.penalty_s_per_byte
        self._opens_at_starts = getattr(gate, "opens_at_starts", True)
        self._local = sharing if isinstance(sharing, SharedCost) and sharing.local else None
        self._leaps = watch is None
        self._leaps_on_links = getattr(gate, "opens_idle_links", False) and getattr(
            sharing, "separable", False
        )
        self._heap: list[tuple[float, int, Callable[..., None], Any, Any]] = []
        self._count = self.events = 0  # events ever planned: of equal times, first planned first
        self.now_s = 0.0
        self._jobs: dict[int, Job] = {}  # those that are done or gone included
        self._here = 0
        self._finished: list[tuple[int, float]] = []
        self._ready: list[list[tuple[int, int, int, Job]]] = [[] for _ in range(gpus)]  # heaps
        self._busy: list[Job | None] = [None] * gpus
        self._look: set[int] = set()  # GPUs that may take a task
        self._on_gpu: list[list[Job]] = [[] for _ in range(gpus)]
        self._at_link: list[list[Job]] = [[] for _ in range(links)]
        self.on_link: list[list[Transfer]] = [[] for _ in range(links)]
        self.under_way: list[Transfer] = []
        self.waiting: list[Transfer] = []  # by key
        self._ask_all = False
        self._freed: set[int | None] = set()  # what transfers may wait for that has come
        self._changed: set[Any] = set()  # links that have others than when they were shared
        self._named: set[float] = set()  # times that gates have named
        self._asked, self._asked_at = 0, -1  # how often in vain, since so many events

    # ---------------------------------------------------------------- what gates see

    @property
    def flows(self) -> list[Transfer]:
        """Transfers under way over links."""
        return [each for each in self.under_way if each.links]

    def on(self, link: int) -> list[Transfer]:
        """Return the transfers under way on a link, in the order in which they started."""
        return self.on_link[link]

    # ---------------------------------------------------------------- who is there

    def add(
        self,
        job: int,
        iteration: Iteration,
        times: int,
        gpus: Sequence[int],
        links: Sequence[int],
        turn: Turn,
        ready_s: float,
    ) -> None:
        """Put a job on GPUs: so many iterations, from a time on, which is now or later."""
        check_there(f"Job {job} sends over", links, len(self.on_link))
        new = self._jobs[job] = Job(job, iteration, times, list(gpus), tuple(links), turn)
        self._here += 1
        for others in (
            *map(self._on_gpu.__getitem__, gpus),
            *map(self._at_link.__getitem__, links),
        ):
            for other in others:
                if other.leap is not None:
                    self._land(other, other.leap)
            others.append(new)
        self._plan(ready_s, self._begin, new)

    def drop(self, job: int) -> None:
        """Take a job off its GPUs; what it has done of an iteration is lost."""
        gone = self._jobs[job]
        if gone.leap is not None:
            self._land(gone, gone.leap)
        self._leave(gone)
        if self._watch is not None:
            self._watch.dropped(job)
        for gpu in gone.gpus:
            self._ready[gpu] = [each for each in self._ready[gpu] if each[3] is not gone]
            heapify(self._ready[gpu])
            if self._busy[gpu] is gone:
                self._busy[gpu] = None
                self._look.add(gpu)
        transfer = gone.transfer
        if transfer in self.waiting:
            self.waiting.remove(transfer)
        elif transfer is not None:
            self._take_off(transfer)

    def so_far(self, jobs: Ints) -> SoFar:
        """Return what jobs have done since they were put on their GPUs, shape (jobs,)."""
        rows = []
        for job in map(self._jobs.__getitem__, jobs.tolist()):
            left, computed_s = job.left, job.computed_s
            if job.leap is not None:
                whole, into_s = self._into(job, job.leap)
                left -= whole
                computed_s += whole * job.iteration.compute_s * len(job.gpus)
                for task_s in job.iteration.gpu_s:
                    into_s -= task_s
                    if into_s >= -self._instant_s(self.now_s):
                        computed_s += task_s * len(job.gpus)
            rows.append((left, computed_s, job.moved))
        return SoFar(*np.array(rows, dtype=float).reshape(-1, 3).T)

    # ---------------------------------------------------------------- time goes by

    def run(
        self, now_s: float, until_s: float, *, to_completion: bool, more_come: bool = False
    ) -> tuple[float, list[tuple[int, float]]]:
        """Let jobs run to a time, or until some are done; return when that is, and who and when.

        What ends at that time is taken in, and nothing begins then: the next call lets it.

        `more_come` says that there will be other jobs then, with which a gate may answer otherwise:
        until then nothing happening is no standstill.

        Raises
        ------
        SolveError
            If they would stand still for ever; it says who waits for what.
        """
        heap, self._finished = self._heap, []
        last_s = until_s + self._instant_s(until_s)
        while True:
            self.now_s, soon_s = now_s, now_s + self._instant_s(now_s)
            while heap and heap[0][0] <= soon_s:
                _, _, happens, subject, detail = heappop(heap)
                happens(subject, detail, now_s)
            if until_s <= soon_s or (to_completion and self._finished):
                self.now_s = max(now_s, until_s) if until_s <= soon_s else now_s
                return self.now_s, self._finished
            self._settle(now_s)
            if not heap and self._here and not more_come:
                raise self._standstill(now_s)
            if not heap or heap[0][0] > last_s:
                self.now_s = until_s
                return until_s, self._finished
            now_s = max(heap[0][0], now_s)

    def _settle(self, now_s: float) -> None:
        """Let begin what may in an instant, and forget events that are void."""
        if self.waiting and (self._freed or self._ask_all):
            self._ask_gate(now_s)
        if self._changed:
            self._share(now_s)
        if self._look:
            self._begin_tasks(now_s)
        heap = self._heap
        while heap and type(heap[0][4]) is int and heap[0][3].stamp != heap[0][4]:
            heappop(heap)  # of a transfer that has another rate since

    def _instant_s(self, now_s: float) -> float:
        return instant_s(now_s, self.least_instant_s)

    def _plan(
        self, when_s: float, happens: Callable[..., None], subject: Any, detail: Any = None
    ) -> None:
        self._count += 1
        heappush(self._heap, (when_s, self._count, happens, subject, detail))

    def _standstill(self, now_s: float, *, in_vain: bool = False) -> SolveError:
        """Say that nothing would ever happen again, and who waits for the gate."""
        words = [
            f"job {written(self._names[each.job]) if self._names else each.job} waits for the gate "
            f"{self.gate.name!r} to let it send {each.left:.3g} bytes over the links "
            f"{', '.join(map(str, each.links))}"
            for each in self.waiting[:5]
        ]
        if len(self.waiting) > 5:
            words.append(f"and {len(self.waiting) - 5} more wait")
        seems, why = "would ever", "No transfer is under way that could end."
        if in_vain:
            seems = "seems ever to"
            why = (
                f"The gate named a time at which to be asked again {IN_VAIN:,} times, and nothing "
                "else happened meanwhile."
            )
        return SolveError(
            f"Nothing {seems} happen again at {now_s:.6g} s: {'; '.join(words)}. {why}"
        )

    # ---------------------------------------------------------------- jobs

    def _begin(self, job: Job, _: None, now_s: float) -> None:
        if job.here:
            self._begin_iteration(job, now_s)
            self._pass_barriers(job, now_s)

    def _begin_iteration(self, job: Job, now_s: float) -> None:
        job.sent, job.done = 0, [0] * len(job.gpus)
        job.key = job.key_with(job.left)
        job.lag = len(job.gpus) if job.barrier() else 0
        if not (self._leaps and self._leap(job, now_s)):
            self._let_workers(job)

    def _let_workers(self, job: Job) -> None:
        """Let workers go on whose next task has waited for the transfers that are over."""
        needs = job.iteration.needs
        if job.sent and job.sent not in needs:
            return
        for worker, done in enumerate(job.done):
            if done < len(needs) and needs[done] == job.sent:
                heappush(self._ready[job.gpus[worker]], (*job.key, worker, job))
        self._look.update(job.gpus)

    def _pass_barriers(self, job: Job, now_s: float) -> None:
        """Go on where all workers have come to the next barrier: send, or begin anew."""
        sends = job.iteration.sends
        while not job.lag and job.transfer is None and job.leap is None:
            if job.sent == len(sends):
                job.left -= 1
                if self._watch is not None:
                    self._watch.iterated(job.number, now_s)
                if not job.left:
                    self._finish(job, now_s)
                    return
                self._begin_iteration(job, now_s)
                continue
            send = sends[job.sent]
            if send.size and (job.links or send.most < math.inf):
                job.transfer = Transfer(job, send, self)
                self._want(job.transfer, now_s)
                return
            self._sent_one(job)

    def _sent_one(self, job: Job) -> None:
        job.sent += 1
        job.transfer = None
        job.lag = sum(map(job.barrier().__gt__, job.done))
        self._let_workers(job)

    def _finish(self, job: Job, now_s: float) -> None:
        self._leave(job)
        self._finished.append((job.number, now_s))

    def _leave(self, job: Job) -> None:
        job.here = False
        self._here -= 1
        for gpu in job.gpus:
            self._on_gpu[gpu].remove(job)
        for link in job.links:
            self._at_link[link].remove(job)

    # ---------------------------------------------------------------- GPUs

    def _begin_tasks(self, now_s: float) -> None:
        """Let idle GPUs begin the task of the job whose turn it is; equal ones end as one event."""
        together: dict[tuple[Job, int], list[int]] = {}
        all_ready, busy = self._ready, self._busy
        for gpu in sorted(self._look):
            ready = all_ready[gpu]
            if ready and busy[gpu] is None:
                _, _, worker, job = heappop(ready)
                busy[gpu] = job
                together.setdefault((job, job.done[worker]), []).append(worker)
        self._look.clear()
        for (job, task), workers in together.items():
            self._plan(now_s + self._task_s(job, task), self._end_tasks, job, workers)
            if self._watch is not None:
                for worker in workers:
                    self._watch.begins(job.number, job.gpus[worker], task, now_s)

    def _task_s(self, job: Job, task: int) -> float:
        """Return how long a task takes that begins now."""
        return job.iteration.gpu_s[task]

    def _end_tasks(self, job: Job, workers: list[int], now_s: float) -> None:
        """Let workers that began together go on."""
        if not job.here:
            return
        needs, task = job.iteration.needs, job.done[workers[0]] + 1
        goes_on = task < len(needs) and needs[task] <= job.sent
        job.computed_s += job.iteration.gpu_s[task - 1] * len(workers)
        self.events += len(workers)
        gpus, done, busy, ready, key = job.gpus, job.done, self._busy, self._ready, job.key
        for worker in workers:
            gpu = gpus[worker]
            done[worker] = task
            busy[gpu] = None
            if goes_on:
                heappush(ready[gpu], (*key, worker, job))
            if self._watch is not None:
                self._watch.ends(job.number, gpu, now_s)
        self._look.update(gpus if len(workers) == len(gpus) else [gpus[at] for at in workers])
        if task == job.barrier():
            job.lag -= len(workers)
            if not job.lag:
                self._pass_barriers(job, now_s)

    # ---------------------------------------------------------------- links

    def _want(self, transfer: Transfer, now_s: float) -> None:
        """Take in a transfer that wants to start; one that uses no link does."""
        if transfer.links:
            insort(self.waiting, transfer, key=lambda each: each.sender.key)
            self._freed.add(NEW)
        else:
            self._start(transfer, now_s)

    def _ask_again(self, when_s: float, _: None, now_s: float) -> None:
        """Ask about all, as a gate has wanted at a time that has come."""
        self._ask_all = True
        self._named.discard(when_s)
        self._asked = self._asked + 1 if self.events == self._asked_at else 1
        self._asked_at = self.events
        if self._asked > IN_VAIN:
            raise self._standstill(when_s, in_vain=True)

    def _ask_gate(self, now_s: float) -> None:
        """Ask about transfers in the order of the jobs: new ones, and those that an end may help.

        All are asked about after a start, too, if that may make the gate let another one in.
        """
        freed, all_ = self._freed, self._ask_all
        asked = [each for each in self.waiting if all_ or each.waits_for in freed]
        self._freed, self._ask_all = set(), False
        while asked:
            let_in = [each for each in asked if self._lets_in(each, now_s)]
            asked = list(self.waiting) if let_in and self._opens_at_starts else []

    def _lets_in(self, transfer: Transfer, now_s: float) -> bool:
        """Ask the gate about a transfer, and start it if it may."""
        transfer.waits_for = None
        when_s = self.gate.decide(now_s, transfer, self)
        if (type(when_s) is not float and not is_number(when_s)) or when_s != when_s:
            raise InputError(
                f"The gate {self.gate.name!r} answers {written(when_s)}; it must answer START, "
                "HOLD, or the time, seconds, at which to ask again."
            )
        if when_s <= now_s:
            self.waiting.remove(transfer)
            self._start(transfer, now_s)
            return True
        if when_s < math.inf and when_s not in self._named:
            self._named.add(when_s)
            self._plan(when_s, self._ask_again, when_s)
        return False

    def _start(self, transfer: Transfer, now_s: float) -> None:
        self.under_way.append(transfer)
        for link in transfer.links:
            self.on_link[link].append(transfer)
        self._changed.update(transfer.links or (transfer,))
        if transfer.startup_s and transfer.links:
            first_s = now_s + transfer.startup_s
            self._plan(first_s, self._first_byte, transfer, transfer.stamp)
        else:
            transfer.since_s = now_s

    def _first_byte(self, transfer: Transfer, stamp: int, now_s: float) -> None:
        if transfer.stamp == stamp:
            self._send_at(transfer, transfer.promised, now_s)

    def _last_byte(self, transfer: Transfer, stamp: int, now_s: float) -> None:
        if transfer.stamp == stamp:
            self.events += 1
            transfer.goes_at(0.0, now_s)
            self._take_off(transfer)
            if self._watch is not None:
                self._watch.sent(transfer.job, now_s)
            self._sent_one(transfer.sender)
            self._pass_barriers(transfer.sender, now_s)

    def _take_off(self, transfer: Transfer) -> None:
        """Let a transfer leave its links."""
        transfer.stamp += 1
        self.under_way.remove(transfer)
        for link in transfer.links:
            self.on_link[link].remove(transfer)
        self._changed.update(transfer.links or (transfer,))
        self._freed.update(transfer.links, (None,))

    def _share(self, now_s: float) -> None:
        """Give transfers their rates; touch only those whose rate changes."""
        changed, self._changed, flows = self._changed, set(), self.under_way
        if self._watch is not None:
            self._watch.shares(flows, now_s)
        if self._local is not None and len(flows) > _FEW:
            flows = [each for each in flows if not changed.isdisjoint(each.links or (each,))]
        for each, rate in zip(flows, self._rates(flows), strict=True):
            if each.since_s == math.inf:  # it starts up
                each.promised = rate
            elif rate != each.rate:
                self._send_at(each, rate, now_s)

    def _rates(self, flows: list[Transfer]) -> list[float]:
        """Return the bytes/s of all transfers under way, or of some if their links tell them."""
        if self._local is not None:
            return self._local.local_rates(flows, self.on_link)
        return checked_rates(self.sharing, flows, self._names)

    def _send_at(self, transfer: Transfer, rate: float, now_s: float) -> None:
        end_s = transfer.goes_at(rate, now_s)
        if rate:
            self._plan(end_s, self._last_byte, transfer, transfer.stamp)

    # ---------------------------------------------------------------- leaps

    def _leap(self, job: Job, now_s: float) -> bool:
        """Make all iterations of a job one event, if nothing can come between them.

        Others on the GPUs of a job that goes before them get none of these, and so end one
        iteration at most, which their key allows for.
        """
        gpu_s, sends, needs = job.iteration
        if job.turn[0] < 0 or len(sends) > 1 or any(needs):
            return False
        if sends and (sends[0].after < len(gpu_s) or sends[0].most < math.inf):
            return False
        send = sends[0] if sends and job.links and sends[0].size else None
        for gpu in job.gpus:
            if self._busy[gpu] is not None:
                return False
            for other in self._on_gpu[gpu]:
                if other is not job and (send or other.key_with(other.left - 1) <= job.key):
                    return False
        rate, each_s = 0.0, job.iteration.compute_s
        if send is not None:
            alone = all(len(self._at_link[link]) == 1 for link in job.links)
            if not (alone and self._leaps_on_links):
                return False
            rate = self.sharing.rates([Transfer(job, send, self)])[0]
            each_s += send.startup_s + send.size / rate
        for gpu in job.gpus:
            self._busy[gpu] = job
        job.leap = Leap(now_s, each_s, rate)
        self._plan(now_s + job.left * each_s, self._end_leap, job, job.leap)
        return True

    def _into(self, job: Job, leap: Leap) -> tuple[int, float]:
        """Return the whole iterations of a leap so far, and seconds into the next."""
        gone_s = max(self.now_s - leap.since_s, 0.0)
        whole = min(math.floor((gone_s + self._instant_s(self.now_s)) / leap.each_s), job.left - 1)
        return whole, gone_s - whole * leap.each_s

    def _book(self, job: Job, leap: Leap, whole: int) -> None:
        """Take down so many iterations of a leap, which is over."""
        gpu_s, sends, _ = job.iteration
        job.left -= whole
        job.computed_s += whole * job.iteration.compute_s * len(job.gpus)
        job.moved += whole * sends[0].size if leap.rate else 0.0
        self.events += whole * (len(gpu_s) * len(job.gpus) + bool(leap.rate))
        job.leap = None
        for gpu in job.gpus:
            self._busy[gpu] = None
        self._look.update(job.gpus)

    def _end_leap(self, job: Job, leap: Leap, now_s: float) -> None:
        if job.leap is leap and job.here:
            self._book(job, leap, job.left)
            self._finish(job, now_s)

    def _land(self, job: Job, leap: Leap) -> None:
        """End a leap where it is: the job goes on task by task from there."""
        now_s, (since_s, each_s, rate) = self.now_s, leap
        whole, _ = self._into(job, leap)
        self._book(job, leap, whole)
        job.key = job.key_with(job.left)
        at_s, tasks, workers = since_s + whole * each_s, len(job.iteration.gpu_s), len(job.gpus)
        begun_s, soon_s = now_s - self._instant_s(now_s), now_s + self._instant_s(now_s)
        for task, task_s in enumerate(job.iteration.gpu_s):
            job.done, job.lag = [task] * workers, workers
            if at_s >= begun_s:  # what begins in this instant has not begun: others may go first
                for worker, gpu in enumerate(job.gpus):
                    heappush(self._ready[gpu], (*job.key, worker, job))
                return
            at_s += task_s
            if at_s > soon_s or (task + 1 == tasks and not rate):
                for gpu in job.gpus:
                    self._busy[gpu] = job
                self._plan(at_s, self._end_tasks, job, [*range(workers)])
                return
            job.computed_s += task_s * workers
            self.events += workers
        job.done, job.lag = [tasks] * workers, 0
        transfer = job.transfer = Transfer(job, job.iteration.sends[0], self)
        if at_s >= begun_s:
            self._want(transfer, now_s)
            return
        self._start(transfer, at_s)
        transfer.promised, first_s = rate, at_s + transfer.startup_s
        if first_s <= soon_s:
            self._send_at(transfer, rate, first_s)
