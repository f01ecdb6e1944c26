"""Rows of jobs and pairs, kept in step with jobs that come, share, and go."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.seeds import each_seed

from apportion.cluster import Cluster
from apportion.mechanism.core import RoundCore
from apportion.mechanism.core_rows import CoreRows
from apportion.mechanism.placement import Placer
from apportion.mechanism.priorities import preferences
from apportion.mechanism.shares import NO_PAIRS, Shares

if TYPE_CHECKING:
    from apportion.mechanism.core_rows import GangRound

    Where = dict[int, tuple[int, tuple[int, ...]]]

GPUS = {"k80": 3, "v100": 4}


def made() -> CoreRows:
    placer = Placer(Cluster(GPUS), "first_fit")
    return CoreRows(RoundCore(list(GPUS.values()), placer, 100.0))


def drawn_shares(rng: np.random.Generator, active: np.ndarray, scale: np.ndarray) -> Shares:
    """Shares alone, and of some pairs of jobs of one size."""
    alone = rng.uniform(0, 0.5, (active.size, 2)) * (rng.random((active.size, 2)) < 0.8)
    pairs = [
        (one, other) if rng.random() < 0.5 else (other, one)
        for one in range(active.size)
        for other in range(one)
        if scale[active[one]] == scale[active[other]] and rng.random() < 0.4
    ]
    together = rng.uniform(0.1, 0.9, (len(pairs), 2)) * (rng.random((len(pairs), 2)) < 0.7)
    return Shares(alone, np.array(pairs, dtype=np.intp).reshape(-1, 2), together)


def where(core_rows: CoreRows) -> Where:
    """Type and devices of each job that has some."""
    held = {}
    for row in np.flatnonzero(core_rows.core.last_type >= 0).tolist():
        kind, devices = core_rows.core.placer.held[int(core_rows.core.ids[row])]
        for job in {int(core_rows.first[row]), int(core_rows.second[row])} - {-1}:
            assert job not in held
            held[job] = (kind, tuple(devices))
    return held


def check_lines(core_rows: CoreRows, chosen: GangRound, before: Where) -> Where:
    """Lines tell who runs where, with whom, and for whom that is new."""
    gangs, starts = core_rows.lines(chosen)
    now = where(core_rows)
    assert sorted(gangs.job.tolist()) == sorted(now)
    mates = np.arange(gangs.job.size) if gangs.mate is None else gangs.mate
    assert mates[mates].tolist() == list(range(gangs.job.size))
    for line, job in enumerate(gangs.job.tolist()):
        kind, devices = now[job]
        held = core_rows.core.placer.held[int(gangs.gang[line])]
        assert (held[0], tuple(held[1])) == (int(gangs.option[line]), devices)
        assert (kind, len(devices)) == (int(gangs.option[line]), int(gangs.gpus[line]))
        assert gangs.gang[mates[line]] == gangs.gang[line]
        assert starts[line] == (before.get(job) != now[job])
    shared = [job for line, job in enumerate(gangs.job.tolist()) if mates[line] != line]
    assert len(shared) == 2 * sum(
        1 for row in chosen.rows.tolist() if core_rows.second[row] >= 0 <= core_rows.first[row]
    )
    lost = [job for job in before if before[job] != now.get(job)]
    assert sorted(core_rows.stopped(chosen).tolist()) == sorted(lost)
    return now


def check_rows(core_rows: CoreRows, active: np.ndarray, shares: Shares) -> None:
    """Each job has one row, and each pair with a share one, with the shares that are told."""
    rows = list(zip(core_rows.first.tolist(), core_rows.second.tolist(), strict=True))
    assert len(set(rows)) == len(rows)
    assert [one for one, other in rows if other == -1] == active.tolist()
    target = dict(zip(rows, core_rows.core.target.tolist(), strict=True))
    for place, job in enumerate(active.tolist()):
        assert target.pop((job, -1)) == shares.alone[place].tolist()
    for pair, share in zip(active[shares.pairs].tolist(), shares.together.tolist(), strict=True):
        assert target.pop((min(pair), max(pair))) == share
    for (one, other), share in target.items():
        # A pair that still runs stays until its devices are handed on.
        assert not any(share)
        assert core_rows.core.last_type[rows.index((one, other))] >= 0


@pytest.mark.parametrize("sharing", [True, False])
@pytest.mark.parametrize("seed", each_seed(10, 25))
def test_rows_follow_the_jobs(seed: int, sharing: bool) -> None:
    rng = np.random.default_rng([seed, sharing])
    core_rows, scale = made(), rng.choice([1, 1, 2], 60)
    active, jobs, before = np.empty(0, dtype=np.intp), 0, dict[int, tuple[int, tuple[int, ...]]]()
    for step in range(8):
        new = np.arange(jobs, jobs + int(rng.integers(0 if step else 1, 5)))
        core_rows.arrive(new, rng.uniform(0.5, 2, (new.size, 2)), scale[new])
        active, jobs = np.append(active, new), jobs + new.size
        if new.size or rng.random() < 0.5:
            shares = drawn_shares(rng, active, scale)
            if not sharing:
                shares = Shares(shares.alone, NO_PAIRS, np.zeros((0, 2)))
            core_rows.aim(active, shares, scale)
            check_rows(core_rows, active, shares)
        for _ in range(2):
            chosen = core_rows.core.ask()
            before = check_lines(core_rows, chosen, before)
            core_rows.core.tell(chosen.rows, chosen.types, np.full(chosen.rows.size, 100.0))
        core = core_rows.core  # what rows prefer is kept while others come and go
        anew = preferences(core.speed, core.number, np.arange(2))
        assert core.preference.tolist() == anew.tolist()
        done = active[rng.random(active.size) < 0.25]
        core_rows.complete(done)
        active = np.setdiff1d(active, done)
        for job in done.tolist():
            before.pop(job, None)
        # A pair of which one job goes on keeps its devices, and its row, until it is handed on.
        assert {job: at for job, at in where(core_rows).items() if job in active} == before
        held = core_rows.core.placer.devices.held
        on = [(kind, device) for kind, devices in held.values() for device in devices]
        assert len(set(on)) == len(on)
        assert set(on) == {(kind, device) for kind, on_it in before.values() for device in on_it}


def test_believed_speeds_are_corrected_for_the_jobs_named() -> None:
    core_rows = made()
    scale = np.ones(3, dtype=np.intp)
    core_rows.arrive(np.arange(3), np.ones((3, 2)), scale)
    pairs = np.array([[0, 2]])
    core_rows.aim(np.arange(3), Shares(np.zeros((3, 2)), pairs, np.full((1, 2), 0.5)), scale)
    core_rows.tell(np.array([0, 2]), np.array([[5.0, 0.0], [7.0, 9.0]]))
    single = core_rows.second < 0
    assert core_rows.core.speed[single].tolist() == [[5.0, 0.0], [1.0, 1.0], [7.0, 9.0]]
    assert core_rows.core.speed[~single].tolist() == [[1.0, 1.0]]


@pytest.mark.parametrize("seed", range(10))
def test_shares_of_jobs_that_come_and_go_are_those_of_their_names(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs = int(rng.integers(1, 7))
    scale = np.ones(jobs, dtype=np.intp)
    shares = drawn_shares(rng, np.arange(jobs), scale)
    by_name = {
        frozenset(pair): share
        for pair, share in zip(shares.pairs.tolist(), shares.together.tolist(), strict=True)
    }
    stay = rng.random(jobs) < 0.6
    names = np.flatnonzero(stay).tolist()
    kept = shares.keep(stay).arrive(2)
    assert kept.alone.tolist() == [*shares.alone[stay].tolist(), [0.0, 0.0], [0.0, 0.0]]
    found = {
        frozenset(names[place] for place in pair): share
        for pair, share in zip(kept.pairs.tolist(), kept.together.tolist(), strict=True)
    }
    assert found == {pair: share for pair, share in by_name.items() if pair <= set(names)}
