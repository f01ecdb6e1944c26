"""apportion: how much accelerator time every deep-learning job gets, on which hardware, and where.

Solve one allocation problem, or compare policies in the round-based simulator::

    import pandas as pd, apportion as ap

    steps_per_second = pd.DataFrame(
        {"v100": [40.0, 12.0], "k80": [10.0, 1.0]}, index=["resnet", "lm"]
    )
    allocation = ap.solve("max_min_fairness", steps_per_second, workers={"v100": 1, "k80": 1})
    allocation.X, allocation.throughput, allocation.prices

    ap.compare(["max_min_fairness", "fifo"], ap.generate_workload(seed=0), {"v100": 8, "k80": 8})

Everything public is importable from here; the modules behind the names load on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion._version import __version__ as __version__
from apportion.faces import lazily

if TYPE_CHECKING:
    from apportion.allocation import Allocation as Allocation
    from apportion.answers import Advice as Advice
    from apportion.answers import Forecast as Forecast
    from apportion.answers import OtherClusters as OtherClusters
    from apportion.answers import Recommendation as Recommendation
    from apportion.answers import advise as advise
    from apportion.answers import forecast as forecast
    from apportion.answers import recommend as recommend
    from apportion.answers import what_if as what_if
    from apportion.cluster import Cluster as Cluster
    from apportion.cluster import accelerators as accelerators
    from apportion.errors import ApportionError as ApportionError
    from apportion.errors import InfeasibleError as InfeasibleError
    from apportion.errors import InputError as InputError
    from apportion.errors import SolveError as SolveError
    from apportion.estimators import EstimatedSpeeds as EstimatedSpeeds
    from apportion.estimators import InterferenceEstimator as InterferenceEstimator
    from apportion.estimators import SpeedModel as SpeedModel
    from apportion.estimators import estimate_pairs as estimate_pairs
    from apportion.estimators import estimate_speeds as estimate_speeds
    from apportion.experiments import Comparison as Comparison
    from apportion.experiments import Sweep as Sweep
    from apportion.experiments import compare as compare
    from apportion.experiments import sweep as sweep
    from apportion.jobs import JOB_COLUMNS as JOB_COLUMNS
    from apportion.jobs import check_jobs as check_jobs
    from apportion.mechanism.deciders import DECIDERS as DECIDERS
    from apportion.mechanism.deciders import get_scheduler as get_scheduler
    from apportion.mechanism.deciders import scheduler_table as scheduler_table
    from apportion.mechanism.leases import OfferScheduler as OfferScheduler
    from apportion.mechanism.orders import ORDERS as ORDERS
    from apportion.mechanism.orders import Order as Order
    from apportion.mechanism.queue import QueueScheduler as QueueScheduler
    from apportion.mechanism.run_to_completion import GatedScheduler as GatedScheduler
    from apportion.mechanism.time_shifts import CommunicationProfile as CommunicationProfile
    from apportion.mechanism.time_shifts import Compatibility as Compatibility
    from apportion.mechanism.time_shifts import compatibility as compatibility
    from apportion.mechanisms import Configurations as Configurations
    from apportion.mechanisms import Exact as Exact
    from apportion.mechanisms import Iterations as Iterations
    from apportion.mechanisms import Leases as Leases
    from apportion.mechanisms import Queue as Queue
    from apportion.mechanisms import Rounds as Rounds
    from apportion.pairs import PairThroughputs as PairThroughputs
    from apportion.policies import FIFO as FIFO
    from apportion.policies import AlloX as AlloX
    from apportion.policies import Cohort as Cohort
    from apportion.policies import DeepBoot as DeepBoot
    from apportion.policies import FairOverTime as FairOverTime
    from apportion.policies import FinishTimeFairness as FinishTimeFairness
    from apportion.policies import Form as Form
    from apportion.policies import GandivaPacking as GandivaPacking
    from apportion.policies import HierarchicalFairness as HierarchicalFairness
    from apportion.policies import IsolatedShare as IsolatedShare
    from apportion.policies import LeastMeanCompletion as LeastMeanCompletion
    from apportion.policies import Lyra as Lyra
    from apportion.policies import Makespan as Makespan
    from apportion.policies import MaxMinFairness as MaxMinFairness
    from apportion.policies import MaxTotalThroughput as MaxTotalThroughput
    from apportion.policies import MinCost as MinCost
    from apportion.policies import MinCostWithSLOs as MinCostWithSLOs
    from apportion.policies import NashWelfare as NashWelfare
    from apportion.policies import NetworkSensitive as NetworkSensitive
    from apportion.policies import Optimus as Optimus
    from apportion.policies import Policy as Policy
    from apportion.policies import Pollux as Pollux
    from apportion.policies import PowerCapped as PowerCapped
    from apportion.policies import Problem as Problem
    from apportion.policies import ProportionalShare as ProportionalShare
    from apportion.policies import Resource as Resource
    from apportion.policies import Rotations as Rotations
    from apportion.policies import ShortestJobFirst as ShortestJobFirst
    from apportion.policies import Sia as Sia
    from apportion.policies import StrategyProof as StrategyProof
    from apportion.policies import get_policy as get_policy
    from apportion.policies import policy_table as policy_table
    from apportion.policies import reallocation_factor as reallocation_factor
    from apportion.policies import register as register
    from apportion.policies import session as session
    from apportion.policies import solve as solve
    from apportion.policies.audit import Audit as Audit
    from apportion.policies.audit import audit as audit
    from apportion.report import plot as plot
    from apportion.sim import ElasticWorkload as ElasticWorkload
    from apportion.sim import FewestGpus as FewestGpus
    from apportion.sim import Run as Run
    from apportion.sim import Serving as Serving
    from apportion.sim import ServingRun as ServingRun
    from apportion.sim import Workload as Workload
    from apportion.sim import fewest_gpus as fewest_gpus
    from apportion.sim import floor as floor
    from apportion.sim import generate_communicating_workload as generate_communicating_workload
    from apportion.sim import generate_contended_workload as generate_contended_workload
    from apportion.sim import generate_elastic_workload as generate_elastic_workload
    from apportion.sim import generate_pair_throughputs as generate_pair_throughputs
    from apportion.sim import generate_rack_workload as generate_rack_workload
    from apportion.sim import generate_workload as generate_workload
    from apportion.sim import read_elastic_workload as read_elastic_workload
    from apportion.sim import read_requests as read_requests
    from apportion.sim import read_schedule as read_schedule
    from apportion.sim import read_workload as read_workload
    from apportion.sim import resample as resample
    from apportion.sim import serve as serve
    from apportion.sim import simulate as simulate
    from apportion.sim.links import SharedLinks as SharedLinks
    from apportion.sim.one_round import RoundDecision as RoundDecision
    from apportion.sim.one_round import solve_round as solve_round
    from apportion.tensor import ThroughputTensor as ThroughputTensor
    from apportion.testing import check_mechanism as check_mechanism
    from apportion.testing import check_network as check_network
    from apportion.testing import check_policy as check_policy
    from apportion.testing import check_schedule as check_schedule
    from apportion.testing import check_scheduler as check_scheduler


if not TYPE_CHECKING:  # or a checker would take any name for one of these
    __getattr__ = lazily(__name__)
