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

from apportion._version import __version__
from apportion.faces import lazily

if TYPE_CHECKING:
    from apportion.allocation import Allocation
    from apportion.answers import (
        Advice,
        FewestForWait,
        Forecast,
        OtherClusters,
        Recommendation,
        advise,
        fewest_for_wait,
        forecast,
        recommend,
        what_if,
    )
    from apportion.answers.audited_runs import audit_run
    from apportion.cluster import Cluster, accelerators
    from apportion.errors import ApportionError, InfeasibleError, InputError, SolveError
    from apportion.estimators import (
        EstimatedSpeeds,
        InterferenceEstimator,
        SpeedModel,
        estimate_pairs,
        estimate_speeds,
    )
    from apportion.experiments import Comparison, Sweep, compare, sweep
    from apportion.jobs import JOB_COLUMNS, check_jobs
    from apportion.mechanism import RoundScheduler
    from apportion.mechanism.deciders import DECIDERS, get_scheduler, scheduler_table
    from apportion.mechanism.offers import OfferScheduler
    from apportion.mechanism.orders import ORDERS, Order
    from apportion.mechanism.queue import QueueScheduler
    from apportion.mechanism.run_to_completion import GatedScheduler
    from apportion.mechanism.time_shifts import (
        CommunicationProfile,
        Compatibility,
        compatibility,
    )
    from apportion.mechanisms import (
        Configurations,
        Exact,
        Iterations,
        Leases,
        Queue,
        Rounds,
    )
    from apportion.pairs import PairThroughputs
    from apportion.policies import (
        FIFO,
        AlloX,
        CappedWorkload,
        Cohort,
        Condition,
        DeepBoot,
        FairOverTime,
        FinishTimeFairness,
        GandivaPacking,
        HierarchicalFairness,
        IsolatedShare,
        LeastMeanCompletion,
        LeastWorkload,
        Lyra,
        Makespan,
        MaxMinFairness,
        MaxTotalThroughput,
        MinCost,
        MinCostWithSLOs,
        NashWelfare,
        NetworkSensitive,
        Optimus,
        Policy,
        Pollux,
        PowerCapped,
        Problem,
        ProportionalShare,
        Resource,
        Rotations,
        ShortestJobFirst,
        Sia,
        StrategyProof,
        condition,
        eligible,
        get_policy,
        place_round,
        policy_table,
        reallocation_factor,
        register,
        session,
        solve,
    )
    from apportion.policies.auditing import Audit, audit
    from apportion.report import plot
    from apportion.sim import (
        CheapestGpus,
        ElasticWorkload,
        FewestGpus,
        Run,
        ServedModel,
        Serving,
        ServingRun,
        Workload,
        cheapest_gpus,
        fewest_gpus,
        floor,
        generate_communicating_workload,
        generate_contended_workload,
        generate_elastic_workload,
        generate_pair_throughputs,
        generate_rack_workload,
        generate_workload,
        read_elastic_workload,
        read_requests,
        read_schedule,
        read_workload,
        resample,
        serve,
        serve_replicas,
        simulate,
    )
    from apportion.sim.one_round import RoundDecision, solve_round
    from apportion.sim.shifts import PlacedGangs, SharedLinks
    from apportion.tensor import ThroughputTensor
    from apportion.testing import (
        check_mechanism,
        check_network,
        check_policy,
        check_schedule,
        check_scheduler,
    )

__all__ = [
    "DECIDERS",
    "FIFO",
    "JOB_COLUMNS",
    "ORDERS",
    "Advice",
    "AlloX",
    "Allocation",
    "ApportionError",
    "Audit",
    "CappedWorkload",
    "CheapestGpus",
    "Cluster",
    "Cohort",
    "CommunicationProfile",
    "Comparison",
    "Compatibility",
    "Condition",
    "Configurations",
    "DeepBoot",
    "ElasticWorkload",
    "EstimatedSpeeds",
    "Exact",
    "FairOverTime",
    "FewestForWait",
    "FewestGpus",
    "FinishTimeFairness",
    "Forecast",
    "GandivaPacking",
    "GatedScheduler",
    "HierarchicalFairness",
    "InfeasibleError",
    "InputError",
    "InterferenceEstimator",
    "IsolatedShare",
    "Iterations",
    "Leases",
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
    "OfferScheduler",
    "Optimus",
    "Order",
    "OtherClusters",
    "PairThroughputs",
    "PlacedGangs",
    "Policy",
    "Pollux",
    "PowerCapped",
    "Problem",
    "ProportionalShare",
    "Queue",
    "QueueScheduler",
    "Recommendation",
    "Resource",
    "Rotations",
    "RoundDecision",
    "RoundScheduler",
    "Rounds",
    "Run",
    "ServedModel",
    "Serving",
    "ServingRun",
    "SharedLinks",
    "ShortestJobFirst",
    "Sia",
    "SolveError",
    "SpeedModel",
    "StrategyProof",
    "Sweep",
    "ThroughputTensor",
    "Workload",
    "__version__",
    "accelerators",
    "advise",
    "audit",
    "audit_run",
    "cheapest_gpus",
    "check_jobs",
    "check_mechanism",
    "check_network",
    "check_policy",
    "check_schedule",
    "check_scheduler",
    "compare",
    "compatibility",
    "condition",
    "eligible",
    "estimate_pairs",
    "estimate_speeds",
    "fewest_for_wait",
    "fewest_gpus",
    "floor",
    "forecast",
    "generate_communicating_workload",
    "generate_contended_workload",
    "generate_elastic_workload",
    "generate_pair_throughputs",
    "generate_rack_workload",
    "generate_workload",
    "get_policy",
    "get_scheduler",
    "place_round",
    "plot",
    "policy_table",
    "read_elastic_workload",
    "read_requests",
    "read_schedule",
    "read_workload",
    "reallocation_factor",
    "recommend",
    "register",
    "resample",
    "scheduler_table",
    "serve",
    "serve_replicas",
    "session",
    "simulate",
    "solve",
    "solve_round",
    "sweep",
    "what_if",
]


if not TYPE_CHECKING:  # or a checker would take any name for one of these
    __getattr__ = lazily(__name__)
