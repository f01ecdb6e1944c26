"""What shifts and placements gain where gangs come and go, and what that hangs on.

``python -m benchmarks.cassini.poisson [--quick]``. Gangs of 2 to 5 GPUs come and go on 24 servers
of one GPU, leaves of two 2:1 oversubscribed, of which 83 to 100 % are busy; in every epoch those
that run go through 20 iterations, phase by phase. Seconds are over those of a job that is alone.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

import apportion as ap
from apportion.errors import InputError
from apportion.mechanism.time_shifts import LinkScores
from apportion.sim.links import LinkShifts, PhaseJob, crux_priorities, run_phases
from apportion.sim.network import get_topology, jobs_on_links
from benchmarks.reporting import add_out, kept

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Profiles = Mapping[str, ap.CommunicationProfile]

TOPOLOGY = get_topology("cassini")
GPUS, LEAF, GBPS = 24, 2, 50.0
CANDIDATES = 10
DUTIES = (0.45, 0.3, 0.2, 0.5, 0.35, 0.25)


def sending(name: str, duty: float, period_s: float) -> ap.CommunicationProfile:
    """A job that sends once an iteration, at the full rate."""
    return ap.CommunicationProfile(name, period_s, [(0.0, duty * period_s, GBPS)])


def named(duties: Sequence[float], periods: Sequence[float]) -> Profiles:
    return {
        f"model {k}": sending(f"model {k}", duty, period)
        for k, (duty, period) in enumerate(zip(duties, periods, strict=True))
    }


KINDS: dict[str, Profiles] = {
    "20 to 50 % of 0.24 and 0.48 s": named(DUTIES, (0.24, 0.48) * 3),
    "20 to 50 % of one period": named(DUTIES, (0.24,) * 6),
    "half of one period": named((0.5,) * 6, (0.24,) * 6),
    "20 to 50 % of unlike periods": named(DUTIES, (0.211, 0.24, 0.277, 0.313, 0.367, 0.419)),
}


class Way(NamedTuple):
    """How gangs are placed and sent.

    Attributes
    ----------
    scattered
        Whether the host puts gangs anywhere, or side by side.
    compared
        Whether it is given ten candidates, and takes that on whose links jobs suit each other.
    shifted
        Whether jobs start as one program for all links has it, or at random.
    served
        How links serve: ``"fair"``, or ``"crux"`` for its priorities.
    """

    scattered: bool
    compared: bool = False
    shifted: bool = False
    served: str = "fair"


WAYS = {
    "starts at random": Way(False),
    "shifts": Way(False, shifted=True),
    "CASSINI": Way(False, compared=True, shifted=True),
    "Crux": Way(False, served="crux"),
}


class Outcome(NamedTuple):
    """Mean and P99 of iterations over those alone, marks of a job in Gb/s, and useful GPU time."""

    mean: float
    p99: float
    marks: float
    computing: float


def side_by_side(free: list[int], gpus: int, rng: np.random.Generator | None) -> list[int]:
    """Servers of one leaf if any has so many free, else of leaves from the emptiest on.

    Of equal ones in order, or at random where candidates are drawn.
    """
    leaves: dict[int, list[int]] = {}
    for server in free:
        leaves.setdefault(server // LEAF, []).append(server)
    parts = list(leaves.values())
    if rng is not None:
        parts = [parts[k] for k in rng.permutation(len(parts))]
    enough = [part for part in parts if len(part) >= gpus]
    if enough:
        return min(enough, key=len)[:gpus]
    return [server for part in sorted(parts, key=len, reverse=True) for server in part][:gpus]


class Servers:
    """Who runs where; gangs that leave and come are the same whatever the way."""

    def __init__(self, known: Profiles, way: Way, seed: int) -> None:
        self.known, self.way = known, way
        self._gangs, self._draws = np.random.default_rng(seed), np.random.default_rng(seed + 100)
        self._scores = LinkScores(lambda model, _: known[model])
        self.where: dict[int, list[int]] = {}
        self.trains: dict[int, str] = {}
        self._number = 0

    def next_epoch(self) -> None:
        """Three of ten gangs leave; others come while more than four GPUs are free."""
        leaves = self._gangs.random(len(self.where)) < 0.3
        for job in [job for job, gone in zip(self.where, leaves, strict=True) if gone]:
            del self.where[job], self.trains[job]
        while len(free := self._free()) > 4:
            gpus = int(self._gangs.integers(2, 6))
            model = list(self.known)[int(self._gangs.integers(len(self.known)))]
            if gpus <= len(free):
                self._place(gpus, model, free)

    def _free(self) -> list[int]:
        return sorted(set(range(GPUS)) - {each for gang in self.where.values() for each in gang})

    def _place(self, gpus: int, model: str, free: list[int]) -> None:
        """Take the best of the candidates, the host's own of equal ones."""
        number, self._number = self._number, self._number + 1
        self.trains[number] = model
        count = CANDIDATES if self.way.compared else 1
        found = [self._candidate(free, gpus, first=k == 0) for k in range(count)]
        scores = [self._score({**self.where, number: each}) for each in found if count > 1]
        self.where[number] = found[int(np.argmax(scores))] if scores else found[0]

    def _candidate(self, free: list[int], gpus: int, *, first: bool) -> list[int]:
        if self.way.scattered:
            return [int(each) for each in self._draws.permutation(free)[:gpus]]
        return side_by_side(free, gpus, None if first else self._draws)

    def _score(self, gangs: dict[int, list[int]]) -> float:
        trained = {job: (self.trains[job], 1) for job in gangs}
        found = self._scores.of_links(jobs_on_links(TOPOLOGY, gangs), trained, TOPOLOGY.capacities)
        return round(float(np.mean(list(found.values()))), 9) if found else 1.0

    def jobs(self) -> dict[int, PhaseJob]:
        """What runs in this epoch, with its start and priority."""
        profiles = {job: self.known[model] for job, model in self.trains.items()}
        links = {job: TOPOLOGY.links_of(gang) for job, gang in self.where.items()}
        starts = {job: self._draws.uniform(0, each.period_s) for job, each in profiles.items()}
        if self.way.shifted:
            posed = ap.SharedLinks.of_gangs(profiles, self.where, TOPOLOGY, slots=12)
            found = ap.solve("rotations", posed, time_limit_s=2, fallback="isolated")
            assert isinstance(found, LinkShifts)
            shared = {job for link in found.scores.index for job in posed.jobs_of[link]}
            starts |= {job: found.shifts_s[job] for job in shared}
        jobs = {job: PhaseJob(profiles[job], links[job], float(starts[job])) for job in profiles}
        if self.way.served == "fair":
            return jobs
        work = {job: len(self.where[job]) * computing_s(profiles[job]) for job in jobs}
        first = crux_priorities(jobs, work, TOPOLOGY.capacities)
        return {
            job: PhaseJob(each.profile, each.links, each.start_s, priority=first.get(job, 0.0))
            for job, each in jobs.items()
        }


def computing_s(profile: ap.CommunicationProfile) -> float:
    """Seconds of an iteration in which nothing is sent."""
    return profile.period_s - sum(phase.duration_s for phase in profile.phases)


def played(known: Profiles, way: Way, epochs: int, seed: int = 3) -> Outcome:
    """Go through epochs."""
    servers = Servers(known, way, seed)
    took: list[float] = []
    marks: list[float] = []
    busy, held = 0.0, 0.0
    for _ in range(epochs):
        servers.next_epoch()
        jobs = servers.jobs()
        run = run_phases(jobs, TOPOLOGY.capacities, iterations=20)
        for name, job in jobs.items():
            took += (run.iterations_s(name) / job.profile.period_s).tolist()
            marks.append(run.marks_gigabits[name] / run.end_s)
            gpus = len(servers.where[name])
            busy += gpus * computing_s(job.profile) / run.mean_s(name)
            held += gpus
    p99 = float(np.quantile(took, 0.99))
    return Outcome(float(np.mean(took)), p99, float(np.mean(marks)), busy / held)


def fewer(host: float, ours: float) -> str:
    """Say how many times fewer marks there are."""
    if host < 0.005:
        return "none there" if ours < 0.005 else "more"
    return "none left" if ours < 0.005 else f"{host / ours:.1f}x"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two epochs, two kinds of jobs")
    add_out(parser)
    given = parser.parse_args()
    with kept(given.out, "cassini_poisson"):
        run(given)


def run(given: argparse.Namespace) -> None:
    quick = given.quick
    print(
        "| gangs | jobs send | | mean | P99 | marks, Gb/s | GPUs compute | gain: mean, P99 "
        "| fewer marks |\n|---|---|---|---|---|---|---|---|---|"
    )
    kinds = dict(list(KINDS.items())[1:3]) if quick else KINDS
    for scattered in (False, True):
        for kind, known in kinds.items():
            host: Outcome | None = None
            for name, way in WAYS.items():
                if way.shifted and "unlike" in kind:
                    continue  # no shift helps
                about = "anywhere" if scattered else "side by side", kind
                told = " | ".join(about if host is None else ("", ""))
                try:
                    found = played(known, way._replace(scattered=scattered), 2 if quick else 15)
                except InputError:  # of priorities: some job may never send
                    print(f"| {told} | {name} | a job starves | | | | | |", flush=True)
                    continue
                gains, less = "", ""
                if host is not None:
                    gains = f"{host.mean / found.mean:.2f}, {host.p99 / found.p99:.2f}"
                    less = fewer(host.marks, found.marks)
                host = host or found
                print(
                    f"| {told} | {name} | {found.mean:.3f} | {found.p99:.3f} | {found.marks:.2f} "
                    f"| {found.computing:.1%} | {gains} | {less} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
