"""The contracts that policies, schedulers and schedules keep, as tests to run on one's own.

from apportion.testing import check_policy, check_schedule, check_scheduler

def test_my_policy():
    check_policy(MyPolicy())
    check_scheduler(MyPolicy())

def test_a_run():
    run = apportion.simulate(MyPolicy(), workload, cluster)
    check_schedule(run, workload, cluster)
"""

from __future__ import annotations

from apportion.annotations import open_doors
from apportion.testing.policy import check_policy
from apportion.testing.schedule import check_schedule
from apportion.testing.scheduler import check_scheduler

__all__ = ["check_policy", "check_schedule", "check_scheduler"]

open_doors(globals())
