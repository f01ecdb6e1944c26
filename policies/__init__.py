"""Policies decide what share of time each job should get on each option.

========================  ==========================================================
`MaxMinFairness`          least attained service, weighted
`Makespan`                the last job completes as early as possible
`FinishTimeFairness`      nobody much later than on a cluster of its own
`HierarchicalFairness`    entities share by weight, jobs within them
`FIFO`                    first in, first out
`ShortestJobFirst`        least time left first
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

Where the options are network tiers, `eligible` masks those that delay timers keep closed, and
`place_round` places one round of gangs on machines.
"""

from apportion.policies.allox import AlloX
from apportion.policies.base import Policy
from apportion.policies.cost import MinCost, MinCostWithSLOs
from apportion.policies.finish_time_fairness import FinishTimeFairness
from apportion.policies.fixed_shares import IsolatedShare, ProportionalShare
from apportion.policies.gandiva_packing import GandivaPacking
from apportion.policies.hierarchical import HierarchicalFairness
from apportion.policies.in_order import FIFO, ShortestJobFirst
from apportion.policies.instance import Instance
from apportion.policies.isolated import isolated_share
from apportion.policies.labelled import solve
from apportion.policies.makespan import Makespan
from apportion.policies.max_min_fairness import MaxMinFairness
from apportion.policies.nash_welfare import NashWelfare, StrategyProof
from apportion.policies.network_sensitive import NetworkSensitive
from apportion.policies.placements.place_round import RoundPlacement, place_round
from apportion.policies.placements.tiers import Eligible, eligible
from apportion.policies.problem import Problem
from apportion.policies.registry import BUILT_IN, SPECIALISED, get_policy, policy_table, register
from apportion.policies.resource import Resource
from apportion.policies.sessions.session import Session, session
from apportion.policies.solving.driver import Solution, solve_instance
from apportion.policies.solving.rows.pairs import PairTable
from apportion.policies.solving.solvers.warm_highs import WarmProblem
from apportion.policies.total_throughput import MaxTotalThroughput

__all__ = [
    "BUILT_IN",
    "FIFO",
    "SPECIALISED",
    "AlloX",
    "Eligible",
    "FinishTimeFairness",
    "GandivaPacking",
    "HierarchicalFairness",
    "Instance",
    "IsolatedShare",
    "Makespan",
    "MaxMinFairness",
    "MaxTotalThroughput",
    "MinCost",
    "MinCostWithSLOs",
    "NashWelfare",
    "NetworkSensitive",
    "PairTable",
    "Policy",
    "Problem",
    "ProportionalShare",
    "Resource",
    "RoundPlacement",
    "Session",
    "ShortestJobFirst",
    "Solution",
    "StrategyProof",
    "WarmProblem",
    "eligible",
    "get_policy",
    "isolated_share",
    "place_round",
    "policy_table",
    "register",
    "session",
    "solve",
    "solve_instance",
]
