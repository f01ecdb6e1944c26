"""Policies decide what share of time each job should get on each option.

========================  ==========================================================
`MaxMinFairness`          least attained service, weighted
`Makespan`                the last job completes as early as possible
`FinishTimeFairness`      nobody much later than on a cluster of its own
`HierarchicalFairness`    entities share by weight, jobs within them
`FairOverTime`            what entities have and have had comes out even
`Cohort`                  quotas of entities first, what they leave is lent
`PowerCapped`             max-min fairness under a cap on power
`FIFO`                    first in, first out
`ShortestJobFirst`        least time left first
`LeastMeanCompletion`     most of all that is left to do, each job counted as one
`MaxTotalThroughput`      most steps per second
`MinCost`                 most throughput per dollar
`MinCostWithSLOs`         the same, such that deadlines are met
`IsolatedShare`           a 1/n slice of every type each
`ProportionalShare`       equal time for all
`AlloX`                   least average completion time, by matching (single GPUs)
`NashWelfare`             largest product of throughputs
`StrategyProof`           Nash welfare, less what each job costs the others
`NetworkSensitive`        those first that lost most time to the network
`GandivaPacking`          random pairs share GPUs when the cluster is full
========================  ==========================================================

These decide in whole numbers: each job has one of its options, or none.

========================  ==========================================================
`Sia`                     goodput over each job's least, raised to a power
`Pollux`                  power mean of speed-ups over a fair share
`DeepBoot`                sum of speed-ups over a fair share
`Optimus`                 least remaining time of all jobs
`Lyra`                    most seconds saved by workers beyond the first
`Rotations`               least demand above the capacity of shared links
`DallyRound`              gangs on free GPUs in order of priority, each at its best
========================  ==========================================================

Each is in the file of its name. A policy of one's own states an objective, and may say it in
numbers too (`Form`), which is quicker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.faces import lazily

if TYPE_CHECKING:
    from apportion.policies.allox import AlloX as AlloX
    from apportion.policies.base import Policy as Policy
    from apportion.policies.cohort import Cohort as Cohort
    from apportion.policies.core.forms import Form as Form
    from apportion.policies.core.pairs import PairTable as PairTable
    from apportion.policies.dally_round import DallyRound as DallyRound
    from apportion.policies.deepboot import DeepBoot as DeepBoot
    from apportion.policies.elastic_values import reallocation_factor as reallocation_factor
    from apportion.policies.fair_over_time import FairOverTime as FairOverTime
    from apportion.policies.fifo import FIFO as FIFO
    from apportion.policies.finish_time_fairness import FinishTimeFairness as FinishTimeFairness
    from apportion.policies.gandiva_packing import GandivaPacking as GandivaPacking
    from apportion.policies.hierarchical_fairness import (
        HierarchicalFairness as HierarchicalFairness,
    )
    from apportion.policies.instance import Instance as Instance
    from apportion.policies.isolated import IsolatedShare as IsolatedShare
    from apportion.policies.labelled import solve as solve
    from apportion.policies.least_mean_completion import LeastMeanCompletion as LeastMeanCompletion
    from apportion.policies.lyra import Lyra as Lyra
    from apportion.policies.makespan import Makespan as Makespan
    from apportion.policies.max_min_fairness import MaxMinFairness as MaxMinFairness
    from apportion.policies.max_total_throughput import MaxTotalThroughput as MaxTotalThroughput
    from apportion.policies.min_cost import MinCost as MinCost
    from apportion.policies.min_cost_slos import MinCostWithSLOs as MinCostWithSLOs
    from apportion.policies.nash_welfare import NashWelfare as NashWelfare
    from apportion.policies.network_sensitive import NetworkSensitive as NetworkSensitive
    from apportion.policies.normalisers import isolated_share as isolated_share
    from apportion.policies.optimus import Optimus as Optimus
    from apportion.policies.pollux import Pollux as Pollux
    from apportion.policies.power_capped import PowerCapped as PowerCapped
    from apportion.policies.problem import Problem as Problem
    from apportion.policies.proportional import ProportionalShare as ProportionalShare
    from apportion.policies.registry import BUILT_IN as BUILT_IN
    from apportion.policies.registry import SPECIALISED as SPECIALISED
    from apportion.policies.registry import WHOLE as WHOLE
    from apportion.policies.registry import get_policy as get_policy
    from apportion.policies.registry import policy_table as policy_table
    from apportion.policies.registry import register as register
    from apportion.policies.resource import Resource as Resource
    from apportion.policies.rotations import Rotations as Rotations
    from apportion.policies.sessions.session import Session as Session
    from apportion.policies.sessions.session import session as session
    from apportion.policies.shortest_job_first import ShortestJobFirst as ShortestJobFirst
    from apportion.policies.sia import Sia as Sia
    from apportion.policies.solution import Solution as Solution
    from apportion.policies.solver import solve_instance as solve_instance
    from apportion.policies.strategy_proof import StrategyProof as StrategyProof


if not TYPE_CHECKING:  # or a checker would take any name for one of these
    __getattr__ = lazily(__name__)
