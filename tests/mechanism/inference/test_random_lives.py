from __future__ import annotations

import numpy as np
import pytest
from tests.seeds import each_seed

from apportion.mechanism.inference import GpuState, InferenceGpus, ProtectTimes

FREE, RUNNING, PROTECTED, WARM, LOANED = GpuState
ALLOWED = {
    *[(FREE, RUNNING), (FREE, LOANED), (RUNNING, PROTECTED), (PROTECTED, RUNNING)],
    *[(PROTECTED, WARM), (WARM, RUNNING), (WARM, LOANED), (LOANED, FREE)],
}
COLD = {"a": 6.0, "b": 4.0, "c": 0.0}
PROTECT = ProtectTimes(5.0, 3.0, 12.0)
NODES = [0, 0, 1, 1, 1]


def drive(gpus: InferenceGpus, seed: int, events: int) -> dict[int, tuple[float, str]]:
    """Draw requests, loans, returns and reclaims; whole seconds, so that many things coincide."""
    rng = np.random.default_rng(seed)
    now, asked = 0.0, {}
    pace = rng.choice([0.2, 1.0, 3.0])
    for number in range(events):
        now += float(rng.poisson(pace))
        gpus.advance(now)
        loaned = [gpu for gpu, state in enumerate(gpus.states) if state == LOANED]
        what = rng.random()
        if what < 0.6:
            service, duration = str(rng.choice(list(COLD))), float(rng.integers(1, 15))
            asked[number] = (now, service)
            gpus.request(now, number, service, duration)
        elif what < 0.8 and gpus.lendable:
            gpus.lend(now, int(rng.choice(gpus.lendable)))
        elif gpus.reclaims_due and what < 0.95:
            gpu, yield_s = int(rng.choice(gpus.reclaimable)), float(rng.integers(0, 9))
            gpus.reclaim(now, gpu, yield_s)
        elif loaned:
            gpus.give_back(now, int(rng.choice(loaned)))
    return asked


@pytest.mark.parametrize("seed", each_seed(2, 12))
def test_nothing_is_lost_and_every_gpu_is_in_one_state(seed: int) -> None:
    gpus = InferenceGpus(NODES, COLD, PROTECT)
    asked = drive(gpus, seed, 150)
    assert len(gpus.served) + gpus.waiting == len(asked)
    end = gpus.now_s
    assert gpus.spent_s().sum(axis=0) == pytest.approx(np.full(len(NODES), end))
    for gpu, state in enumerate(gpus.states):
        if state == LOANED:
            gpus.give_back(end, gpu)
    while gpus.waiting:
        gpus.advance(gpus.next_event_s)
    gpus.advance(gpus.now_s + 1000.0)
    assert set(gpus.states) <= {FREE, WARM}
    assert sorted(each.request for each in gpus.served) == sorted(asked)  # type: ignore[type-var]
    check_served(gpus, asked)
    check_states(gpus)


def check_served(gpus: InferenceGpus, asked: dict[int, tuple[float, str]]) -> None:
    for each in gpus.served:
        assert (each.arrival_s, each.service) == asked[each.request]  # type: ignore[index]
        assert each.start_s >= each.arrival_s
        assert each.cold_start_s in (0.0, COLD[str(each.service)])
    for gpu in range(len(NODES)):
        spans = [(e.start_s, e.end_s, e.service) for e in gpus.served if e.gpu == gpu]
        for start, _, service in spans:
            assert [s for begin, stop, s in spans if begin <= start < stop] == [service]
    for service in COLD:  # first come, first served
        order = [e.request for e in gpus.served if e.service == service]
        assert order == sorted(order)  # type: ignore[type-var]


def check_states(gpus: InferenceGpus) -> None:
    states = dict.fromkeys(range(len(NODES)), FREE)
    last = 0.0
    loans: dict[int, float] = {}
    for time_s, gpu, before, after, _ in gpus.changes:
        assert time_s >= last
        assert states[gpu] == before
        assert (before, after) in ALLOWED
        last, states[gpu] = time_s, after
        if after == LOANED:
            loans[gpu] = time_s
        elif before == LOANED:
            spans = [(e.start_s, e.end_s) for e in gpus.served if e.gpu == gpu]
            assert not [1 for start, end in spans if start < time_s and end > loans[gpu]]
    assert tuple(states.values()) == gpus.states
