"""LWF-kappa as a program chooses what Algorithm 1 chooses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.oracles.draw_whole import SERVERS, draw_servers
from tests.oracles.least_workload import Servers, least_workload
from tests.policies.whole.posed import by_server

from apportion.errors import InfeasibleError, InputError
from apportion.policies import Policy, Resource, solve, solve_instance
from apportion.policies.least_workload import LeastWorkload, one_job

VARIANTS = [LeastWorkload(), LeastWorkload(kappa=4)]


def chosen(
    policy: Policy, servers: Servers, n: int, memory: float
) -> tuple[set[int], float] | None:
    """GPUs that a policy chooses, and its objective; None where it says that the job waits."""
    load, free = by_server(servers, memory)
    instance = one_job(load, free, n)
    try:
        found = solve_instance(policy, instance)
    except InfeasibleError:
        return None
    assert found.status == "optimal"
    units = found.X[0] * n
    assert units == pytest.approx(np.rint(units), abs=1e-9)
    return {int(g) for g in np.flatnonzero(units > 0.5)}, found.objective


@pytest.mark.parametrize("seeds", [1, pytest.param(29, marks=pytest.mark.slow)])
@pytest.mark.parametrize("policy", VARIANTS, ids=repr)
def test_least_workload_is_algorithm_1(policy: LeastWorkload, seeds: int) -> None:
    """Seven kinds of states: 203 for each variant."""
    for kind in SERVERS:
        for seed in range(seeds):
            servers, n, memory = draw_servers(seed, kind)
            want = least_workload(servers, n, memory, policy.kappa)
            got = chosen(policy, servers, n, memory)
            assert (got is None) == (want is None), (kind, seed)
            if want is not None and got is not None:
                assert got[0] == set(want), (kind, seed)


def test_sixty_four_gpus() -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        servers = Servers(rng.integers(0, 1000, (16, 4)).tolist(), [[16] * 4] * 16)
        n = int(rng.choice([1, 2, 4, 8, 16, 32]))
        want = least_workload(servers, n, 8, 1)
        got = chosen(LeastWorkload(), servers, n, 8)
        assert want is not None
        assert got is not None
        assert got[0] == set(want)


def test_with_labels() -> None:
    """Server loads 6, 9, 5: the two GPUs of the last, of which one has no memory, then 1."""
    names = [f"s{server}-g{gpu}" for server in range(3) for gpu in range(2)]
    speed = pd.DataFrame([[1.0, 1, 1, 1, 1, 0]], index=["job"], columns=names)

    def resource(name: str, used: list[float]) -> Resource:
        return Resource(name, None, pd.DataFrame([used], index=["job"], columns=names))

    beside = [
        resource("load", [5, 1, 0, 9, 2, 3]),
        *(resource(f"server {s}", [float(s == g // 2) for g in range(6)]) for s in range(3)),
    ]
    given: dict[str, Any] = {
        "workers": dict.fromkeys(names, 1),
        "jobs": {"count": [2]},
        "resources": beside,
    }
    for policy, gpus in ((LeastWorkload(), [4, 1]), (LeastWorkload(kappa=2), [2, 1])):
        found = solve(policy, speed, **given)
        assert set(np.array(names)[found.X[names].to_numpy()[0] > 0]) == {names[g] for g in gpus}
    two = {**given, "jobs": {"count": [7]}}
    with pytest.raises(InfeasibleError, match="all GPUs of the job"):
        solve(LeastWorkload(), speed, **two)
    with pytest.raises(InputError, match="resource 'load'"):
        solve(LeastWorkload(), speed, **{**given, "resources": beside[1:]})
    with pytest.raises(InputError, match="Each GPU must be of one server"):
        solve(LeastWorkload(), speed, **{**given, "resources": beside[:-1]})
    both = pd.concat([speed, speed]).set_axis(["a", "b"])
    with pytest.raises(InputError, match="one job at a time, and there are 2 rows"):
        solve("least_workload", both, workers=given["workers"])


@pytest.mark.parametrize(
    ("load", "room", "gpus", "says"),
    [
        ([[-1.0, 0.0]], [[True, True]], 1, "load holds a value"),
        ([[float("nan"), 0.0]], [[True, True]], 1, "load holds a value"),
        ([[0.0, 0.0]], [[True]], 1, r"servers with \[2\] and \[1\] GPUs"),
        ([], [], 1, r"servers with \[\] and \[\] GPUs"),
        ([[0.0, 0.0]], [[True, True]], 0, "gpus is 0"),
    ],
)
def test_loads_and_sizes_out_of_range(
    load: list[list[float]], room: list[list[bool]], gpus: int, says: str
) -> None:
    with pytest.raises(InputError, match=says):
        one_job(load, room, gpus)


def test_fields_out_of_range() -> None:
    with pytest.raises(InputError, match="kappa is 0"):
        LeastWorkload(kappa=0)


def test_loads_that_are_equal_go_by_place() -> None:
    instance = one_job([[0.0, 0.0], [0.0, 0.0]], [[True, True], [True, True]], 3)
    assert solve_instance(LeastWorkload(), instance).X[0].tolist() == [1 / 3] * 3 + [0.0]
    none = replace(instance, throughput=np.zeros((1, 4)))
    with pytest.raises(InfeasibleError):
        solve_instance(LeastWorkload(), none)
