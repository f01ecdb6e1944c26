from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.mechanism.offers.without_a_run import Alone

from apportion.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from apportion.mechanism.offers import OfferScheduler

HOUR_S = 3600.0


class Bench:
    """A mechanism on 2 racks of 2 machines of 4 GPUs, some of which are taken for good."""

    def __init__(self, scheduler: OfferScheduler | str, free: Sequence[Sequence[int]]) -> None:
        cluster = Cluster.of_racks(len(free), machines_per_rack=len(free[0]), gpus_per_machine=4)
        self.mechanism = Alone(scheduler, cluster)
        self.set_free(free)

    def set_free(self, free: Sequence[Sequence[int]]) -> None:
        holdings = self.mechanism.holdings
        for filler in [job for job in holdings.held if job < 0]:
            holdings.give_back(filler)
        for rack, machines in enumerate(free):
            for machine, left in enumerate(machines):
                if taken := int(holdings.pools[0].free[rack, machine]) - left:
                    filler = -1 - rack * 10 - machine
                    holdings.hold(filler, 0, ((rack, machine, taken),))

    def arrive(self, gpus: int, now_s: float = 0.0, job_type: str = "ResNet50") -> int:
        return self.mechanism.arrive(now_s, scale_factor=gpus, job_type=job_type, ideal_s=1e5)

    def offer(self, now_s: float) -> dict[int, tuple[tuple[int, int, int], ...]]:
        return {lease.job: lease.placement for lease in self.mechanism.offer(now_s)}


@pytest.fixture
def bench() -> Callable[..., Bench]:
    return Bench
