from __future__ import annotations

import numpy as np
import pytest

from apportion import Cluster
from apportion.mechanism.configurations.resizing import Joining, grow, shrink
from apportion.mechanism.devices import Devices


def test_new_workers_join_when_they_are_ready() -> None:
    joining = Joining()
    assert joining.change(7, (0, [0, 1]), (0, [0, 1, 2]), 40.0)
    assert (joining.working(7), joining.next_s) == ([0, 1], 40.0)
    assert joining.join(39.9) == []
    assert joining.join(40.0) == [7]
    assert (joining.working(7), joining.next_s) == (None, float("inf"))


@pytest.mark.parametrize(
    ("now", "working", "due_s"),
    [
        ([0, 1, 2, 3], [0, 1], 90.0),  # one more begins: all that are new begin anew
        ([0, 1, 2], [0, 1], 40.0),  # the same
        ([0, 2], [0], 40.0),  # one that worked has gone
        ([0, 1], None, float("inf")),  # nobody prepares any more
        ([0], None, float("inf")),
    ],
)
def test_a_change_while_workers_prepare(
    now: list[int], working: list[int] | None, due_s: float
) -> None:
    joining = Joining()
    joining.change(7, (0, [0, 1]), (0, [0, 1, 2]), 40.0)
    assert joining.change(7, (0, [0, 1, 2]), (0, now), 90.0)
    assert (joining.working(7), joining.next_s) == (working, due_s)


@pytest.mark.parametrize("now", [(0, [2, 3]), (0, [4]), (1, [0, 1])])
def test_without_any_that_worked_nobody_trains_on(now: tuple[int, list[int]]) -> None:
    joining = Joining()
    joining.change(7, (0, [0, 1]), (0, [0, 1, 2]), 40.0)
    assert not joining.change(7, (0, [0, 1, 2]), now, 90.0)
    assert joining.working(7) is None
    assert not Joining().change(7, None, (0, [1]), 40.0)


@pytest.mark.parametrize("seed", range(20))
def test_gangs_grow_and_shrink_where_they_are(seed: int) -> None:
    rng = np.random.default_rng(seed)
    devices = Devices.of(Cluster({"v100": 16}, gpus_per_machine=4))
    order = rng.permutation(16).tolist()
    mine, others = order[:4], order[4 : 4 + int(rng.integers(0, 8))]
    devices.hold(0, 0, sorted(mine))
    if others:
        devices.hold(1, 0, sorted(others))
    free = 16 - 4 - len(others)
    machines = [len({d // 4 for d in found}) for found in (mine, [*mine, *range(16)])]
    target = 4 + int(rng.integers(1, free + 3))
    grown = grow(devices, 0, target, machines[1])
    assert grown == (target <= 4 + free)
    held = devices.held[0][1]
    assert set(mine) <= set(held)
    assert len(held) == (target if grown else 4)
    assert not set(held) & set(others)
    least = int(rng.integers(1, len(held) + 1))
    spare = set(held) - set(mine)
    shrink(devices, 0, least, spare)
    kept = devices.held[0][1]
    assert len(kept) == least
    assert set(kept) <= set(held)
    assert least < 4 or set(mine) <= set(kept)
    assert len(devices.pools[0].free_devices) == 16 - least - len(others)


def test_a_gang_that_would_take_too_many_machines_does_not_grow() -> None:
    devices = Devices.of(Cluster({"v100": 8}, gpus_per_machine=4))
    devices.hold(0, 0, [0, 1])
    devices.hold(1, 0, [2, 3])
    assert not grow(devices, 0, 4, machines=1)
    assert devices.held[0] == (0, [0, 1])
    assert grow(devices, 0, 4, machines=2)
    assert devices.held[0] == (0, [0, 1, 4, 5])
