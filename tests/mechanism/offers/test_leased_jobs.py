"""Columns of leases beside a job table."""

from __future__ import annotations

import numpy as np
from tests.mechanism.offers.without_a_run import add, leave, table_with_room

from apportion.mechanism.offers.leased_jobs import LeasedJobs


def test_who_waits_and_needs_few_gpus_is_found_until_it_has_gone() -> None:
    told = table_with_room(70)
    jobs = LeasedJobs(told)
    for number in range(70):
        add(told, 1.0, 1 + number % 3, 5.0)
        jobs.enter(number, float(number), f"type {number % 2}", [1.0, np.inf, np.inf])
    assert jobs.released_s.tolist() == list(range(70))
    assert jobs.type_code.tolist() == [0, 1] * 35
    jobs.waiting[::2] = False
    leave(told, 1)
    assert jobs.able(2).tolist() == [k for k in range(3, 70, 2) if k % 3 < 2]
