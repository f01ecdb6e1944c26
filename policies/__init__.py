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
`LeastWorkload`           the GPUs with least work waiting, for one job
`CappedWorkload`          the same, on at most so many servers
`Rotations`               least demand above the capacity of shared links
`PlacementAndRotation`    least delay by shared links, over where gangs lie and when they start
`DallyRound`              gangs on free GPUs in order of priority, each at its best
========================  ==========================================================

`reallocation_factor`, `one_job` and `rotation_problem` make what they need.

Where the options are network tiers, `eligible` masks those that delay timers keep closed, and
`place_round` places one round of gangs on machines.
"""

from apportion.annotations import open_doors
from apportion.policies.allox import AlloX
from apportion.policies.base import Policy
from apportion.policies.completion import FinishTimeFairness, Makespan
from apportion.policies.entities import Cohort, FairOverTime
from apportion.policies.fairness import MaxMinFairness, NashWelfare, PowerCapped, StrategyProof
from apportion.policies.fixed_shares import (
    GandivaPacking,
    IsolatedShare,
    ProportionalShare,
    isolated_share,
)
from apportion.policies.hierarchical import HierarchicalFairness
from apportion.policies.in_order import FIFO, DallyRound, ShortestJobFirst
from apportion.policies.instance import Instance
from apportion.policies.labelled import solve
from apportion.policies.placements.place_round import RoundPlacement, place_round
from apportion.policies.placements.tiers import Eligible, eligible
from apportion.policies.problem import Problem
from apportion.policies.registry import (
    BUILT_IN,
    SPECIALISED,
    WHOLE,
    get_policy,
    policy_table,
    register,
)
from apportion.policies.resource import Resource
from apportion.policies.sessions.session import Session, session
from apportion.policies.solution import Solution
from apportion.policies.solving.condition import Condition, condition
from apportion.policies.solving.driver import solve_instance
from apportion.policies.solving.pairs import PairTable
from apportion.policies.solving.solvers.warm_highs import WarmProblem
from apportion.policies.total_throughput import (
    LeastMeanCompletion,
    MaxTotalThroughput,
    MinCost,
    MinCostWithSLOs,
    NetworkSensitive,
)
from apportion.policies.whole.elastic import DeepBoot, Lyra, Optimus, Pollux, Sia
from apportion.policies.whole.least_workload import CappedWorkload, LeastWorkload, one_job
from apportion.policies.whole.rotations import (
    PlacementAndRotation,
    RotationProblem,
    Rotations,
    rotation_problem,
)
from apportion.policies.whole.values import reallocation_factor

__all__ = [
    "BUILT_IN",
    "FIFO",
    "SPECIALISED",
    "WHOLE",
    "AlloX",
    "CappedWorkload",
    "Cohort",
    "Condition",
    "DallyRound",
    "DeepBoot",
    "Eligible",
    "FairOverTime",
    "FinishTimeFairness",
    "GandivaPacking",
    "HierarchicalFairness",
    "Instance",
    "IsolatedShare",
    "LeastMeanCompletion",
    "LeastWorkload",
    "Lyra",
    "Makespan",
    "MaxMinFairness",
    "MaxTotalThroughput",
    "MinCost",
    "MinCostWithSLOs",
    "NashWelfare",
    "NetworkSensitive",
    "Optimus",
    "PairTable",
    "PlacementAndRotation",
    "Policy",
    "Pollux",
    "PowerCapped",
    "Problem",
    "ProportionalShare",
    "Resource",
    "RotationProblem",
    "Rotations",
    "RoundPlacement",
    "Session",
    "ShortestJobFirst",
    "Sia",
    "Solution",
    "StrategyProof",
    "WarmProblem",
    "condition",
    "eligible",
    "get_policy",
    "isolated_share",
    "one_job",
    "place_round",
    "policy_table",
    "reallocation_factor",
    "register",
    "rotation_problem",
    "session",
    "solve",
    "solve_instance",
]

open_doors(globals())
