"""The contracts that parts keep, as tests to run on one's own.

from apportion.testing import check_policy, check_schedule, check_scheduler

def test_my_policy():
    check_policy(MyPolicy())
    check_scheduler(MyPolicy())

def test_other_parts():
    check_network(MyNetwork())
    check_mechanism(MyMechanism())
    check_scheduler("fifo", placement="my_placement")
    check_scheduler("ada_srsf", gate="my_gate", order="my_order")

def test_a_run():
    run = apportion.simulate(MyPolicy(), workload, cluster)
    check_schedule(run, workload, cluster)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.faces import lazily

if TYPE_CHECKING:
    from apportion.testing.network import check_network as check_network
    from apportion.testing.policy import check_policy as check_policy
    from apportion.testing.run_case import drawn as drawn
    from apportion.testing.schedule import check_schedule as check_schedule
    from apportion.testing.scheduler import check_mechanism as check_mechanism
    from apportion.testing.scheduler import check_scheduler as check_scheduler


if not TYPE_CHECKING:  # or a checker would take any name for one of these
    __getattr__ = lazily(__name__)
