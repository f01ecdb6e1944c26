"""The simulation of contended jobs against worked cases, closed forms and its invariants."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest
from tests.oracles.contention import Cluster, Job, Outcome, Rules, StandstillError, simulate
from tests.oracles.draw_contention import JOB_SETS, LAWS, JobSet, draw_jobs
from tests.oracles.least_workload import least_workload
from tests.oracles.shared_links import Law
from tests.oracles.transfer_gates import Gate, adadual, always, k_way, never, srsf, what_if
from tests.seeds import sampled

GATES: dict[str, Gate] = {
    "SRSF(1)": srsf(1),
    "SRSF(2)": srsf(2),
    "AdaDUAL": adadual(),
    "AdaDUAL as written": adadual("first"),
    "k-way": k_way,
    "what-if": what_if,
    "always": always,
}


def job(name: int, forward: int, backward: int, size: int, gpus: tuple[int, ...]) -> Job:
    times = (Fraction(forward), Fraction(backward), Fraction(size))
    return Job(name, Fraction(0), len(gpus), *times, 2, fixed=gpus)


def test_one_job_in_closed_form() -> None:
    law = Law(Fraction(1, 2), 2, 1)
    wide = simulate(Cluster((1, 1)), [job(0, 3, 4, 5, (0, 1))], Rules(law, srsf(1)))
    assert wide.finished == {0: 2 * (3 + 4 + Fraction(1, 2) + 2 * 5)}
    alone = simulate(Cluster((2,)), [job(0, 3, 4, 5, (0, 1))], Rules(law, srsf(1)))
    assert alone.finished == {0: 2 * (3 + 4)}


def test_two_jobs_by_hand() -> None:
    """Both wait at 2: at once each takes c(2) 4 = 9 s, in turn 4 s with the other's between."""
    jobs, law = [job(0, 1, 1, 4, (0, 2)), job(1, 1, 1, 4, (1, 3))], Law(0, 1, Fraction(1, 4))
    at_once = simulate(Cluster((2, 2)), jobs, Rules(law, always))
    assert at_once.finished == {0: 22, 1: 22}
    in_turn = simulate(Cluster((2, 2)), jobs, Rules(law, srsf(1)))
    assert in_turn.finished == {0: 14, 1: 18}
    assert [s.job for s in in_turn.sent] == [0, 1, 0, 1]
    assert [s.ready for s in in_turn.sent] == [2, 2, 8, 12]
    assert [s.start for s in in_turn.sent] == [2, 6, 10, 14]


def test_shared_gpu_by_hand() -> None:
    """One GPU, two jobs of 2 iterations: the shorter leads, the longer fills in; none is cut."""
    jobs = [job(0, 1, 2, 0, (0,)), replace(job(1, 1, 1, 0, (0,)), arrival=Fraction(1, 2))]
    out = simulate(Cluster((1,)), jobs, Rules(Law(), srsf(1)))
    assert "".join(f"{t.job}{t.kind[0]} " for t in out.tasks) == "0f 1f 1b 1f 1b 0b 0f 0b "
    assert [t.start for t in out.tasks] == [0, 1, 2, 3, 4, 5, 7, 8]
    assert out.finished == {1: 5, 0: 10}
    alone = simulate(Cluster((1,)), jobs, Rules(Law(), srsf(1), exclusive=True))
    assert alone.finished == {0: 6, 1: 10}


MODELS = {
    "Inception-V3": ("34.9", "52.4", "103.0", 2.9, 2.0),
    "ResNet-50": ("25.0", "37.4", "99.2", 3.2, 2.30),
    "LSTM-PTB": ("31.5", "47.3", "251.8", 3.8, 2.9),
    "VGG-16": ("35.8", "53.7", "526.4", 4.2, 3.3),
}


@pytest.mark.parametrize("model", MODELS)
def test_motivating_measurement(model: str) -> None:
    """Four jobs of four GPUs crossed over four nodes, against one alone (ms and MB)."""
    forward, backward, size = map(Fraction, MODELS[model][:3])
    law = Law(Fraction("0.669"), Fraction("0.853"), Fraction("0.235"))
    jobs = [
        Job(j, Fraction(0), 4, forward, backward, size, 6, fixed=tuple(4 * s + j for s in range(4)))
        for j in range(4)
    ]
    alone, at_once = (
        simulate(Cluster((4,) * 4), some, Rules(law, always)) for some in (jobs[:1], jobs)
    )
    ratio = float(at_once.finished[3] / alone.finished[0])
    assert ratio == pytest.approx(MODELS[model][3], abs=0.06)
    sent = simulate(Cluster((4,) * 4), jobs, Rules(law, srsf(1))).sent
    turn = (sent[-1].end - sent[0].start) / 6
    assert float(turn / (alone.finished[0] / 6)) == pytest.approx(MODELS[model][4], abs=0.06)


def invariants(case: JobSet, law: Law, out: Outcome) -> None:
    jobs = {j.name: j for j in case.jobs}
    assert set(out.finished) == set(jobs)
    for gpu in range(sum(case.cluster.gpus)):
        own = sorted((t.start, t.end) for t in out.tasks if t.gpu == gpu)
        assert all(a[1] <= b[0] for a, b in pairwise(own))
    for name, j in jobs.items():
        own_tasks = [t for t in out.tasks if t.job == name]
        sent = [s for s in out.sent if s.job == name]
        spans = bool(case.cluster.links(out.gpus[name]))
        assert len(own_tasks) == 2 * j.n * j.iterations
        assert sum(s.size for s in sent) == (j.size * j.iterations if spans else 0)
        assert out.placed[name] >= j.arrival
        for x in sent:
            assert law.seconds(j.size) <= x.end - x.start <= law.seconds(j.size, x.most)
        for i in range(j.iterations):
            ends = [t.end for t in own_tasks if t.iteration == i]
            later = [t.start for t in own_tasks if t.iteration > i]
            barrier = max([*ends, *(s.end for s in sent if s.iteration == i)])
            assert all(s.ready == max(ends) <= s.start for s in sent if s.iteration == i)
            assert all(start >= barrier for start in later)
    assert max(out.finished.values()) == max([t.end for t in out.tasks] + [s.end for s in out.sent])


@pytest.mark.parametrize("kind", sampled(JOB_SETS, 2))
@pytest.mark.parametrize("gate", GATES)
def test_invariants(kind: str, gate: str) -> None:
    case = draw_jobs(len(gate), kind, jobs=4, iterations=3)
    for law in LAWS[:3:2]:
        rules = Rules(law, GATES[gate])
        out = simulate(case.cluster, case.jobs, rules)
        invariants(case, law, out)
        limit = {"SRSF(1)": 1, "SRSF(2)": 2, "AdaDUAL": 2, "AdaDUAL as written": 2}.get(gate, 9)
        assert all(s.most <= limit for s in out.sent)
        assert simulate(case.cluster, case.shuffled(1).jobs, rules) == out
    plain = Rules(LAWS[0], GATES[gate])
    ends = simulate(case.cluster, case.jobs, plain).finished
    scaled = simulate(case.cluster, case.scaled(Fraction(3, 7)).jobs, plain).finished
    assert scaled == {name: end * Fraction(3, 7) for name, end in ends.items()}


@pytest.mark.parametrize("exclusive", [False, True])
def test_with_least_workload_first(exclusive: bool) -> None:
    for seed in range(5):
        case = draw_jobs(seed, "crowded")
        rules = Rules(
            LAWS[0],
            adadual(),
            lambda servers, job: least_workload(servers, job.n, job.memory, 1),
            exclusive=exclusive,
        )
        out = simulate(case.cluster, case.jobs, rules)
        invariants(case, LAWS[0], out)
        for a in out.finished:
            for b in out.finished:
                apart = out.finished[a] <= out.placed[b] or out.finished[b] <= out.placed[a]
                assert a == b or apart or not exclusive or not set(out.gpus[a]) & set(out.gpus[b])


def test_standstill_is_named() -> None:
    jobs = [job(0, 1, 1, 4, (0, 1))]
    with pytest.raises(StandstillError, match=r"\[0\] wait for ever from 2"):
        simulate(Cluster((1, 1)), jobs, Rules(Law(), never))
    with pytest.raises(StandstillError, match="wait for ever"):
        simulate(Cluster((1, 1)), [replace(jobs[0], memory=Fraction(2))], Rules(Law(), always))


def test_k_over_the_cluster_or_the_task() -> None:
    """Jobs on disjoint servers: each alone by its own servers, both slowed by the cluster's k."""
    jobs = [
        job(0, 1, 1, 4, (0, 1)),
        job(1, 1, 1, 4, (2, 3)),
        job(2, 1, 1, 4, (4, 6)),
        job(3, 1, 1, 4, (5, 7)),
    ]
    cluster = Cluster((1, 1, 1, 1, 2, 2))
    own = simulate(cluster, jobs, Rules(Law(0, 1, 0), always)).finished
    literal = simulate(cluster, jobs, Rules(Law(0, 1, 0, over="cluster"), always)).finished
    assert own == {0: 12, 1: 12, 2: 20, 3: 20}
    assert literal == {0: 20, 1: 20, 2: 20, 3: 20}


def test_racks_are_links() -> None:
    jobs = [job(0, 1, 1, 4, (0, 1)), job(1, 1, 1, 4, (2, 3))]
    flat = simulate(Cluster((1, 1, 1, 1)), jobs, Rules(Law(), always)).finished
    racks = simulate(Cluster((1,) * 4, rack_of=(0, 1, 0, 1)), jobs, Rules(Law(), always)).finished
    assert flat == {0: 12, 1: 12}
    assert racks == {0: 20, 1: 20}


def test_orders_by_hand() -> None:
    """Gates and placement go by remaining service, not by name; E counts or does not."""
    law = Law(0, 1, 0)
    long, late = replace(job(0, 2, 1, 4, (0, 2)), iterations=3), job(1, 1, 1, 4, (1, 3))
    late = replace(late, arrival=Fraction(1), iterations=1)
    sent = simulate(Cluster((2, 2)), [long, late], Rules(law, srsf(1))).sent
    assert [(s.job, s.ready == 3) for s in sent[:2]] == [(1, True), (0, True)]
    queue = [job(0, 1, 1, 0, (0,)), job(1, 5, 5, 0, (0,)), job(2, 2, 2, 0, (0,))]
    out = simulate(Cluster((1,)), queue, Rules(law, srsf(1), exclusive=True))
    assert out.placed == {0: 0, 2: 4, 1: 12}
    wide, narrow = job(0, 1, 1, 100, (0, 1)), job(1, 3, 3, 0, (0,))
    starts = [
        next(t.job for t in simulate(Cluster((1, 1)), [wide, narrow], rules).tasks if t.gpu == 0)
        for rules in (Rules(law, srsf(1)), Rules(law, srsf(1), network_counts=False))
    ]
    assert starts == [1, 0]
