"""The rounds mechanism against one that keeps its books in dictionaries, over generated calls."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from tests.seeds import each_seed

from apportion.cluster import Cluster
from apportion.mechanism.placement import Placer
from apportion.mechanism.round_planner import RoundPlanner
from apportion.mechanism.shares import NO_PAIRS, Shares

LENGTH = 100.0
NAMES = ("k80", "p100", "v100")


@dataclass
class Row:
    """A job, or several that share devices."""

    number: int
    jobs: tuple[int, ...]
    gpus: int
    speed: list[float]
    share: list[float]
    received: list[float]
    owed: list[float]
    served: float = 0.0
    on: int | None = None
    devices: list[int] = field(default_factory=list)


class Plain:
    """Gavel's mechanism (Narayanan et al., OSDI 2020, section 5), one row after the other."""

    def __init__(self, gpus: list[int], *, carry_over: bool, lends: bool) -> None:
        self.gpus, self.carry_over, self.lends = gpus, carry_over, lends
        self.rows: list[Row] = []
        self.elapsed, self.named = 0.0, 0

    def append(self, speed: list[float], gpus: int, jobs: tuple[int, ...] = ()) -> None:
        none = [0.0] * len(self.gpus)
        number, half = self.named, [LENGTH / 2] * len(self.gpus)
        self.rows.append(Row(number, jobs or (number,), gpus, speed, none, half, none))
        self.named += 1

    def aim(self, target: list[list[float]]) -> None:
        for row, share in zip(self.rows, target, strict=True):
            half, kinds = LENGTH / 2, range(len(self.gpus))
            due = [row.share[k] * self.elapsed - (row.received[k] - half) for k in kinds]
            if self.carry_over:
                row.owed = due
                row.received = [half - min(max(owed, -half), 0.9 * half) for owed in due]
            else:
                row.owed = [row.owed[k] + due[k] for k in kinds]
                row.received = [half for _ in kinds]
            row.share = share
        self.elapsed = 0.0

    def preference(self, row: Row) -> list[int]:
        """Types on which a row can run, the fastest first; equal ones in turns by its number."""
        usable = [k for k, speed in enumerate(row.speed) if speed > 0]
        turn = {k: (at - row.jobs[0]) % len(usable) for at, k in enumerate(usable)}
        return sorted(usable, key=lambda k: (-row.speed[k], turn[k]))

    def ask(self) -> list[tuple[Row, int]]:
        """Choose who runs where."""
        free, busy = list(self.gpus), set[int]()
        wishes = []
        for row in self.rows:
            for k in self.preference(row):
                has = (row.received[k] - LENGTH / 2) * (1 + 1e-9)
                behind = row.share[k] * (self.elapsed + LENGTH) > has
                if row.share[k] >= 1e-6 and (self.lends or behind):
                    priority = float(f"{row.share[k] / row.received[k]:.8g}")
                    tie = (
                        -round(row.owed[k], 2),
                        -row.share[k],
                        sorted(row.jobs),
                        self.preference(row).index(k),
                    )
                    wishes.append(((-priority, *tie), row, k))
        order = [(row, k) for _, row, k in sorted(wishes, key=lambda wish: wish[0])]
        if self.lends:
            least = sorted(self.rows, key=lambda row: round(row.served, 2))
            order += [(row, k) for row in least if len(row.jobs) == 1 for k in self.preference(row)]
        chosen = []
        for row, k in order:
            if row.gpus <= free[k] and not busy & set(row.jobs):
                chosen.append((row, k))
                free[k] -= row.gpus
                busy |= set(row.jobs)
        return chosen

    def run(self, chosen: list[tuple[Row, int]], seconds: list[float]) -> None:
        for (row, k), ran in zip(chosen, seconds, strict=True):
            row.received = [had + ran * (at == k) for at, had in enumerate(row.received)]
            row.served += ran
        self.elapsed += max(seconds, default=LENGTH)


def begin(rng: np.random.Generator) -> tuple[RoundPlanner, Plain]:
    gpus = rng.integers(1, 5, rng.integers(1, 4)).tolist()
    carries, lends = bool(rng.random() < 0.5), bool(rng.random() < 0.6)
    cluster = Cluster(dict(zip(NAMES, gpus, strict=False)))
    placer = Placer(cluster, "first_fit")
    planner = RoundPlanner(placer, LENGTH, work_conserving=lends, carry_over=carries)
    return planner, Plain(gpus, lends=lends, carry_over=carries)


def add(rng: np.random.Generator, planner: RoundPlanner, plain: Plain, count: int) -> None:
    speed = rng.choice([0.0, 1.0, 1.0, 3.0], (count, len(plain.gpus)))
    gpus = rng.choice([1, 1, 2, 3], count)
    jobs = plain.named + np.arange(count)
    planner.table.add(jobs, jobs, gpus, speed)
    for k in range(count):
        plain.append(speed[k].tolist(), int(gpus[k]))


def target(rng: np.random.Generator, rows: int, types: int) -> list[list[float]]:
    """Shares in hundredths, many of which are equal."""
    shares = rng.integers(0, 100, (rows, types)) * (rng.random((rows, types)) < 0.7)
    part: list[list[float]] = (shares / np.maximum(shares.sum(axis=1)[:, None], 100)).tolist()
    return [[round(share, 2) for share in row] for row in part]


def one_round(rng: np.random.Generator, planner: RoundPlanner, plain: Plain) -> None:
    """Ask both, compare who runs where and since when, and let them run."""
    chosen, table = plain.ask(), planner.table
    plan = planner.plan()
    members = zip(
        *(each[planner.rows].tolist() for each in (table.first, table.second)), strict=True
    )
    got = [(tuple(sorted({*jobs})), k) for jobs, k in zip(members, planner.options, strict=True)]
    assert got == [(row.jobs, k) for row, k in chosen]
    assert not planner.declined
    had = {job: (row.on, row.devices) for row in plain.rows if row.devices for job in row.jobs}
    for row in plain.rows:
        row.on, row.devices = None, []
    for row, k in chosen:
        kind, row.devices = planner.where[row.jobs[0]]
        assert (kind, len(row.devices)) == (k, row.gpus)
        row.on = k
    has = {job: (row.on, row.devices) for row in plain.rows if row.devices for job in row.jobs}
    assert planner.where == has
    fresh = [had.get(job) != has[job] for job in plan.gangs.job.tolist()]
    assert plan.starts.tolist() == fresh
    assert plan.stop.tolist() == sorted(job for job in had if had[job] != has.get(job))
    together = [(row.on, device) for row in plain.rows for device in row.devices]
    assert len(set(together)) == len(together) <= sum(plain.gpus)
    seconds = rng.choice([LENGTH, LENGTH, 37.0, 61.0], len(chosen))
    table.book(planner.rows, planner.options, seconds)
    plain.run(chosen, seconds.tolist())


@pytest.mark.parametrize("seed", each_seed(10, 40))
def test_jobs_come_go_and_are_served_as_in_plain_books(seed: int) -> None:
    rng = np.random.default_rng(seed)
    planner, plain = begin(rng)
    for _ in range(6):
        add(rng, planner, plain, int(rng.integers(0, 4)))
        if rng.random() < 0.4:
            done = [row for row in plain.rows if rng.random() < 0.3]
            planner.complete(np.array([row.number for row in done], dtype=np.intp))
            plain.rows = [row for row in plain.rows if row not in done]
        if rng.random() < 0.3 and plain.rows:
            row = plain.rows[int(rng.integers(len(plain.rows)))]
            row.speed = rng.choice([0.0, 2.0], len(plain.gpus)).tolist()
            planner.table.correct(np.array([row.number]), np.array([row.speed]))
        if rng.random() < 0.7:
            wanted = target(rng, len(plain.rows), len(plain.gpus))
            none = np.zeros((0, len(plain.gpus)))
            alone = np.array(wanted).reshape(len(wanted), len(plain.gpus))
            active = np.array([row.number for row in plain.rows], dtype=np.intp)
            planner.table.aim(active, Shares(alone, NO_PAIRS, none))
            plain.aim(wanted)
        for _ in range(int(rng.integers(1, 4))):
            one_round(rng, planner, plain)


@pytest.mark.parametrize("seed", each_seed(10, 30))
def test_jobs_that_share_go_on_where_their_devices_are(seed: int) -> None:
    rng = np.random.default_rng([seed, 1])
    planner, plain = begin(rng)
    add(rng, planner, plain, int(rng.integers(2, 6)))
    singles, types = list(plain.rows), len(plain.gpus)
    for row in singles:
        row.speed = [max(speed, 1.0) for speed in row.speed]
    active = np.arange(len(singles))
    planner.table.correct(active, np.array([row.speed for row in singles]))
    alike = [
        (one.number, other.number)
        for one in singles
        for other in singles
        if one.number < other.number and one.gpus == other.gpus
    ]
    for _ in range(4):
        alone = target(rng, len(singles), types)
        together = dict(zip(alike, target(rng, len(alike), types), strict=True))
        together = {pair: share for pair, share in together.items() if rng.random() < 0.7}
        pairs = np.array([*together], dtype=np.intp).reshape(-1, 2)
        shares = np.array([*together.values()]).reshape(-1, types)
        planner.table.aim(active, Shares(np.array(alone), pairs, shares))
        # Pairs without a share are forgotten once they do not run.
        plain.rows = [
            row for row in plain.rows if len(row.jobs) == 1 or row.devices or row.jobs in together
        ]
        known = {row.jobs: row for row in plain.rows}
        for one, other in together:
            if (one, other) not in known:
                plain.append([0.0] * types, singles[one].gpus, (one, other))
        for row in plain.rows[len(singles) :]:
            share = together.get((row.jobs[0], row.jobs[1]), [0.0] * types)
            row.speed = [float(part > 0) for part in share]
        wanted = [
            together.get((row.jobs[0], row.jobs[1]), [0.0] * types)
            for row in plain.rows[len(singles) :]
        ]
        plain.aim([*alone, *wanted])
        for _ in range(4):
            one_round(rng, planner, plain)


@pytest.mark.parametrize(
    ("shares", "settled"),
    [([1.0, 1.0], True), ([1.0, 0.5], True), ([1.0, 0.0], False), ([1.0, 1.0, 1.0], False)],
    ids=["all run", "all have a share", "one is lent its GPU", "too many"],
)
def test_rounds_repeat_themselves_if_all_who_have_a_share_fit(
    shares: list[float], settled: bool
) -> None:
    for lends in (True, False):
        planner = RoundPlanner(Placer(Cluster({"v100": 2})), LENGTH, work_conserving=lends)
        jobs = np.arange(len(shares))
        planner.table.add(jobs, jobs, np.ones_like(jobs), np.ones((jobs.size, 1)))
        none = np.zeros((0, 1))
        planner.table.aim(jobs, Shares(np.array(shares)[:, None], NO_PAIRS, none))
        assert not planner.settled  # nobody runs yet
        planner.plan()
        assert planner.settled is (settled and lends)
