from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.seeds import sampled

from apportion.mechanism.selection import select

Case = tuple[list[list[int]], list[int], list[int], list[int], int]


def plain_greedy(case: Case) -> list[int]:
    slots, types, gpus, free, _ = case
    left, busy, chosen = list(free), set[int](), list[int]()
    for position, jobs in enumerate(slots):
        if gpus[position] <= left[types[position]] and not busy & set(jobs):
            chosen.append(position)
            busy |= set(jobs)
            left[types[position]] -= gpus[position]
    return chosen


@st.composite
def cases(draw: st.DrawFn, members: int) -> Case:
    jobs = draw(st.integers(1, 12))
    kinds = draw(st.integers(1, 3))
    count = draw(st.integers(0, 40))
    job = st.integers(0, jobs - 1)
    slots = draw(
        st.lists(st.lists(job, min_size=members, max_size=members), min_size=count, max_size=count)
    )
    types = draw(st.lists(st.integers(0, kinds - 1), min_size=count, max_size=count))
    gpus = draw(st.lists(st.sampled_from([1, 1, 2, 3, 4, 8]), min_size=count, max_size=count))
    free = draw(st.lists(st.integers(0, 12), min_size=kinds, max_size=kinds))
    return slots, types, gpus, free, jobs


def run(case: Case, loop_below: int) -> tuple[list[int], list[int], list[bool]]:
    slots, types, gpus, free, jobs = case
    left, taken = np.array(free), np.zeros(jobs, dtype=bool)
    width = len(slots[0]) if slots else 1
    rows = np.array(slots, dtype=np.intp).reshape(-1, width)
    chosen = select(
        rows,
        np.array(types, dtype=np.intp),
        np.array(gpus, dtype=np.intp),
        left,
        taken,
        loop_below=loop_below,
    )
    return chosen.tolist(), left.tolist(), taken.tolist()


@pytest.mark.parametrize("loop_below", sampled([5, 1000, 0], 2))
@pytest.mark.parametrize("members", [1, 2, 3])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_equals_one_candidate_after_the_other(
    data: st.DataObject, members: int, loop_below: int
) -> None:
    case = data.draw(cases(members))
    expected = plain_greedy(case)
    chosen, left, taken = run(case, loop_below)
    assert chosen == expected
    slots, types, gpus, free, jobs = case
    used = [sum(gpus[k] for k in expected if types[k] == kind) for kind in range(len(free))]
    assert left == [have - use for have, use in zip(free, used, strict=True)]
    running = {job for k in expected for job in slots[k]}
    assert taken == [job in running for job in range(jobs)]


def test_thousands_of_candidates_equal_the_plain_loop() -> None:
    rng = np.random.default_rng(3)
    jobs, count = 4000, 12000
    slots = rng.integers(0, jobs, (count, 1)).tolist()
    types = rng.integers(0, 3, count).tolist()
    gpus = rng.choice([1, 2, 4, 8], count).tolist()
    case: Case = (slots, types, gpus, [900, 700, 501], jobs)
    assert run(case, 400)[0] == plain_greedy(case)


@pytest.mark.parametrize("members", [1, 2])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_resources_beside_the_gpus_are_like_the_gpus(data: st.DataObject, members: int) -> None:
    """GPUs of one type, told as a resource beside plenty of others, choose as they do."""
    slots, _, gpus, free, jobs = data.draw(cases(members))
    types, few = [0] * len(gpus), free[:1]
    expected, left, taken = run((slots, types, gpus, few, jobs), 1000)
    rows = np.array(slots, dtype=np.intp).reshape(-1, members)
    room, busy, beside = np.array([10**6]), np.zeros(jobs, dtype=bool), np.array(few, dtype=float)
    units = np.array(gpus, dtype=float)[:, None]
    kinds, sizes = np.zeros(len(gpus), dtype=np.intp), np.array(gpus, dtype=np.intp)
    chosen = select(rows, kinds, sizes, room, busy, beside=(units, beside))
    assert chosen.tolist() == expected
    assert beside.tolist() == left
    assert busy.tolist() == taken
