"""Both engines against jobs that are followed from event to event in fractions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf, lcm
from typing import TYPE_CHECKING, Any

import pytest
from tests.oracles import transfer_gates
from tests.oracles.contention import Cluster, Rules, simulate
from tests.oracles.draw_contention import JOB_SETS, LAWS, draw_jobs
from tests.seeds import ranges_of_seeds

from apportion.mechanism.gates import AdaDual, AtMost
from apportion.sim.links import LinkEngine, SharedCost, all_reduced

if TYPE_CHECKING:
    from tests.oracles.contention import Job, Outcome
    from tests.oracles.draw_contention import JobSet
    from tests.oracles.shared_links import Law

GATES: dict[str, tuple[Any, Any]] = {
    **{f"srsf({n})": (transfer_gates.srsf(n), AtMost(n)) for n in (1, 2, 3)},
    **{f"srsf({n}) by pair": (transfer_gates.srsf_between(n), AtMost(n, "pair")) for n in (1, 2)},
    "always": (transfer_gates.always, AtMost(inf)),
    "ada dual": (transfer_gates.adadual(), AdaDual()),
    "ada dual as written": (transfer_gates.adadual("first"), AdaDual("first")),
}


def service(job: Job, links: Any, law: Law) -> Fraction:
    """GPU-seconds of an iteration, with its transfer alone on its links."""
    sent = law.seconds(job.size, 1) if links and job.size else Fraction(0)
    return (job.forward + job.backward + sent) * job.n


def played(case: JobSet, law: Law, gate: Any, known: Outcome) -> dict[int, float]:
    """Let an engine do what the oracle placed, at the times at which it placed it."""
    cluster = case.cluster
    names: dict[Any, int] = {}
    links = {name: cluster.links(known.gpus[name]) for name in known.gpus}
    for each in sorted({link for of in links.values() for link in of}, key=str):
        names[each] = len(names)
    sharing = SharedCost(float(law.b), float(law.eta), float(law.a), law.over)
    engine = LinkEngine(len(cluster.server_of), max(len(names), 1), sharing, gate)
    jobs = sorted(case.jobs, key=lambda job: (job.arrival, job.name))
    services = {job.name: service(job, links[job.name], law) for job in jobs}
    parts = lcm(*(each.denominator for each in services.values()))
    number = {job.name: place for place, job in enumerate(jobs)}
    done: dict[int, float] = {}
    order = sorted(jobs, key=lambda job: (known.placed[job.name], number[job.name]))
    now_s = 0.0
    for job in order:
        placed_s = float(known.placed[job.name])
        # Whoever is placed where a job has just ended takes part in what begins at that instant.
        while now_s < placed_s - 1e-9 * max(placed_s, 1.0):
            now_s, over = engine.run(now_s, placed_s, to_completion=True)
            done |= dict(over)
        iteration = all_reduced(
            *(float(each) for each in (job.forward, job.backward, job.size)), startup_s=float(law.a)
        )
        mine = [names[each] for each in links[job.name]]
        turn = (int(services[job.name] * parts), 0)
        gpus = list(known.gpus[job.name])
        engine.add(number[job.name], iteration, job.iterations, gpus, mine, turn, placed_s)
    while len(done) < len(jobs):
        now_s, over = engine.run(now_s, inf, to_completion=False)
        done |= dict(over)
    return {job.name: done[number[job.name]] for job in jobs}


INSTANT_S = 1e-9
KINDS = [kind for kind in JOB_SETS if kind not in ("zero size", "tiny")]


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seeds", ranges_of_seeds(1, 60))
def test_engines_follow_the_definition(kind: str, gate: str, seeds: range) -> None:
    theirs, ours = GATES[gate]
    for seed in seeds:
        case, law = draw_jobs(seed, kind), LAWS[seed % len(LAWS)]
        known = simulate(case.cluster, case.jobs, Rules(law, theirs))
        found = played(case, law, ours, known)
        for name, when in known.finished.items():
            assert found[name] == pytest.approx(float(when), rel=1e-9, abs=1e-9), seed


@dataclass(frozen=True)
class Silent(Cluster):
    """A cluster on which some gangs send nothing, wherever they are."""

    silent: frozenset[tuple[int, ...]] = frozenset()

    def links(self, gpus: tuple[int, ...]) -> tuple[Any, ...]:
        return () if gpus in self.silent else super().links(gpus)


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("kind", ["zero size", "plain", "lockstep"])
@pytest.mark.parametrize("seeds", ranges_of_seeds(1, 60))
def test_jobs_that_send_nothing_have_no_transfer(kind: str, gate: str, seeds: range) -> None:
    """As within one server: they neither ask the gate nor take the seconds before a first byte.

    Followed by the letter, a transfer of no bytes would be one, for no time: long enough to leave
    the GPUs to others, and to wait for the gate. All jobs of "zero size", every other one of the
    others.
    """
    theirs, ours = GATES[gate]
    for seed in seeds:
        drawn, law = draw_jobs(seed, kind), LAWS[seed % len(LAWS)]
        jobs = [replace(j, size=Fraction(0)) if j.name % 2 else j for j in drawn.jobs]
        mute = frozenset(job.fixed for job in jobs if not job.size and job.fixed)
        if any(job.fixed in mute for job in jobs if job.size):
            continue
        case, gpus = replace(drawn, jobs=jobs), drawn.cluster
        cluster = Silent(gpus.gpus, gpus.memory, gpus.rack_of, mute)
        known = simulate(cluster, jobs, Rules(law, theirs))
        found = played(case, law, ours, known)
        for name, when in known.finished.items():
            assert found[name] == pytest.approx(float(when), rel=1e-9, abs=1e-9), seed


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize(
    "seeds", [range(10, 16), pytest.param(range(16, 80), marks=pytest.mark.slow)]
)
def test_jobs_of_microseconds_are_off_by_an_instant_for_each_of_their_parts(
    gate: str, seeds: range
) -> None:
    """Events that are less than a nanosecond apart happen at once, at the time of the first."""
    theirs, ours = GATES[gate]
    law, most = LAWS[0], 0.0
    for seed in seeds:
        case = draw_jobs(seed, "tiny")
        known = simulate(case.cluster, case.jobs, Rules(law, theirs))
        parts = len(known.tasks) + len(known.sent)
        found = played(case, law, ours, known)
        for name, when in known.finished.items():
            most = max(most, abs(found[name] - float(when)))
            assert abs(found[name] - float(when)) <= INSTANT_S * parts, seed
    assert most < 10 * INSTANT_S
