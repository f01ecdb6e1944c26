"""The problem of policies over tiers against every way to lay gangs into machines and racks."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy.optimize import linprog

import apportion as ap
from apportion.sim.tiers.tier_problem import tier_problem

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.policies import Instance

CLUSTERS = {
    "a machine of 4": (1, 1, 4),
    "a rack of 2 x 3": (1, 2, 3),
    "2 racks of 2 x 2": (2, 2, 2),
}


def cluster_of(name: str) -> ap.Cluster:
    racks, machines, gpus = CLUSTERS[name]
    return ap.Cluster.of_racks(racks, machines_per_rack=machines, gpus_per_machine=gpus)


def posed(name: str, scale: list[int]) -> Instance:
    """Jobs that make a step/s at every tier that holds them."""
    _, machines, gpus = CLUSTERS[name]
    sizes = np.array(scale)
    speed = np.ones((sizes.size, 3))
    speed[:, 0] = sizes <= gpus
    speed[:, 1] = sizes <= gpus * machines
    return tier_problem(speed, sizes, cluster_of(name))


def usage_of(instance: Instance) -> NDArray[np.float64]:
    """What a job holds of each resource at each tier, shape (jobs, tiers, resources)."""
    return instance.usage.toarray().reshape(len(instance.throughput), 3, -1)


def can_be_laid(name: str, scale: list[int], tiers: tuple[int | None, ...]) -> bool:
    """Whether gangs fit at once, each in a machine, in a rack, or anywhere: all ways are tried."""
    racks, machines, gpus = CLUSTERS[name]
    inside = [job for job, tier in enumerate(tiers) if tier == 0]
    within = [job for job, tier in enumerate(tiers) if tier == 1]
    anywhere = sum(scale[job] for job, tier in enumerate(tiers) if tier == 2)
    for where in product(range(racks * machines), repeat=len(inside)):
        left = [gpus] * (racks * machines)
        for job, machine in zip(inside, where, strict=True):
            left[machine] -= scale[job]
        if min(left) < 0:
            continue
        for chosen in product(range(racks), repeat=len(within)):
            of_rack = [sum(left[rack * machines : (rack + 1) * machines]) for rack in range(racks)]
            for job, rack in zip(within, chosen, strict=True):
                of_rack[rack] -= scale[job]
            if min(of_rack) >= 0 and sum(of_rack) >= anywhere:
                return True
    return False


@pytest.mark.parametrize("name", CLUSTERS)
@pytest.mark.parametrize("seed", range(6))
def test_whatever_can_be_laid_is_within_the_limits(name: str, seed: int) -> None:
    rng = np.random.default_rng([seed, *name.encode()])
    total = int(np.prod(CLUSTERS[name]))
    scale = rng.integers(1, total + 1, int(rng.integers(1, 5))).tolist()
    instance = posed(name, scale)
    usage, laid = usage_of(instance), 0
    for tiers in product((None, 0, 1, 2), repeat=len(scale)):
        held = [(job, tier) for job, tier in enumerate(tiers) if tier is not None]
        if all(instance.throughput[at] for at in held) and can_be_laid(name, scale, tiers):
            used = sum((usage[at] for at in held), np.zeros(instance.capacity.size))
            assert (used <= instance.capacity + 1e-9).all(), tiers
            laid += 1
    assert laid > 1


@pytest.mark.parametrize("name", CLUSTERS)
@pytest.mark.parametrize("gpus", range(1, 5))
def test_so_many_equal_gangs_run_at_a_tier_as_fit(name: str, gpus: int) -> None:
    racks, machines, per_machine = CLUSTERS[name]
    instance = posed(name, [gpus] * 12)
    fits = (
        racks * machines * (per_machine // gpus),
        racks * (machines * per_machine // gpus),
        racks * machines * per_machine / gpus,
    )
    for tier, most in enumerate(fits):
        use = usage_of(instance)[:, tier]
        best = linprog(
            -np.ones(12),
            A_ub=use.T,
            b_ub=instance.capacity,
            bounds=[(0, float(speed > 0)) for speed in instance.throughput[:, tier]],
        )
        assert best.x is not None
        assert best.x.sum() == pytest.approx(min(most, 12))


def test_every_gang_holds_its_gpus_at_every_tier() -> None:
    instance = posed("2 racks of 2 x 2", [1, 2, 3])
    held = usage_of(instance)[:, :, 0]
    assert held.tolist() == [[1.0] * 3, [2.0] * 3, [3.0] * 3]
    assert instance.capacity[0] == 8
    assert instance.columns["scale_factor"].tolist() == [1.0, 2.0, 3.0]
    assert instance.option_accelerator.tolist() == [0, 0, 0]
