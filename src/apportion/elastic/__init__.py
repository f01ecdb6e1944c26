"""All names of elastic training beside inference, in one place.

Goodput and profiles, jobs and policies, rules, what changes cost, requests, and the GPUs that serve
them: what the page on elastic training (``docs/systems/elastic.md``) speaks of. Nothing is defined
here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.faces import lazily

if TYPE_CHECKING:
    from apportion.estimators.goodput import AnySteps as AnySteps
    from apportion.estimators.goodput import BatchLimits as BatchLimits
    from apportion.estimators.goodput import BestBatches as BestBatches
    from apportion.estimators.goodput import Goodput as Goodput
    from apportion.estimators.goodput import GpuSpeeds as GpuSpeeds
    from apportion.estimators.goodput import MeasuredApplication as MeasuredApplication
    from apportion.estimators.goodput import MeasuredSteps as MeasuredSteps
    from apportion.estimators.goodput import MeasuredTraining as MeasuredTraining
    from apportion.estimators.goodput import ModelledSteps as ModelledSteps
    from apportion.estimators.goodput import StepObservations as StepObservations
    from apportion.estimators.goodput import StepSeconds as StepSeconds
    from apportion.estimators.goodput import StepTimeFit as StepTimeFit
    from apportion.estimators.goodput import StepTimes as StepTimes
    from apportion.estimators.goodput import best_batches as best_batches
    from apportion.estimators.goodput import efficiency as efficiency
    from apportion.estimators.goodput import fit_step_times as fit_step_times
    from apportion.estimators.goodput import gain as gain
    from apportion.estimators.goodput import noise_scale as noise_scale
    from apportion.mechanism.configurations import GANG_SIZES as GANG_SIZES
    from apportion.mechanism.configurations import RESTARTS as RESTARTS
    from apportion.mechanism.configurations import GangOptions as GangOptions
    from apportion.mechanism.configurations import lost_seconds as lost_seconds
    from apportion.mechanism.elastic import AFS as AFS
    from apportion.mechanism.elastic import ElasticJobs as ElasticJobs
    from apportion.mechanism.elastic import ElasticRule as ElasticRule
    from apportion.mechanism.elastic import Tiresias as Tiresias
    from apportion.mechanism.elastic import base_workers as base_workers
    from apportion.mechanism.elastic import elastic_share as elastic_share
    from apportion.mechanism.elastic import shortest_first as shortest_first
    from apportion.mechanism.inference import DEEPBOOT_COLD_STARTS as DEEPBOOT_COLD_STARTS
    from apportion.mechanism.inference import PIPESWITCH_COLD_START_S as PIPESWITCH_COLD_START_S
    from apportion.mechanism.inference import GpuState as GpuState
    from apportion.mechanism.inference import InferenceGpus as InferenceGpus
    from apportion.mechanism.inference import ProtectTimes as ProtectTimes
    from apportion.mechanism.inference import RequestFeed as RequestFeed
    from apportion.mechanism.inference import ServedRequest as ServedRequest
    from apportion.mechanism.inference import StateChange as StateChange
    from apportion.mechanism.inference import cold_starts as cold_starts
    from apportion.policies import DeepBoot as DeepBoot
    from apportion.policies import Lyra as Lyra
    from apportion.policies import Optimus as Optimus
    from apportion.policies import Pollux as Pollux
    from apportion.policies import Sia as Sia
    from apportion.policies import reallocation_factor as reallocation_factor
    from apportion.sim import ElasticWorkload as ElasticWorkload
    from apportion.sim import generate_elastic_workload as generate_elastic_workload
    from apportion.sim import read_elastic_workload as read_elastic_workload
    from apportion.sim.elastic_workload import ELASTIC_COLUMNS as ELASTIC_COLUMNS
    from apportion.sim.inference import GPU_STATE_COLUMNS as GPU_STATE_COLUMNS
    from apportion.sim.inference import POOLED as POOLED
    from apportion.sim.inference import REQUEST_COLUMNS as REQUEST_COLUMNS
    from apportion.sim.inference import SERVED_COLUMNS as SERVED_COLUMNS
    from apportion.sim.inference import Bursts as Bursts
    from apportion.sim.inference import DiurnalRate as DiurnalRate
    from apportion.sim.inference import FewestGpus as FewestGpus
    from apportion.sim.inference import MeasuredRate as MeasuredRate
    from apportion.sim.inference import RequestRate as RequestRate
    from apportion.sim.inference import Serving as Serving
    from apportion.sim.inference import ServingRun as ServingRun
    from apportion.sim.inference import checked_requests as checked_requests
    from apportion.sim.inference import fewest_gpus as fewest_gpus
    from apportion.sim.inference import generate_requests as generate_requests
    from apportion.sim.inference import gpu_states_table as gpu_states_table
    from apportion.sim.inference import offered_load as offered_load
    from apportion.sim.inference import peak_gpus as peak_gpus
    from apportion.sim.inference import read_azure_llm as read_azure_llm
    from apportion.sim.inference import read_request_rate as read_request_rate
    from apportion.sim.inference import read_requests as read_requests
    from apportion.sim.inference import requests_table as requests_table
    from apportion.sim.inference import serve as serve
    from apportion.sim.traces.pollux import DEEPBOOT_RESTART_S as DEEPBOOT_RESTART_S
    from apportion.sim.traces.pollux import POLLUX_LOCAL_BATCHES as POLLUX_LOCAL_BATCHES
    from apportion.sim.traces.pollux import read_pollux_profile as read_pollux_profile
    from apportion.sim.traces.pollux import read_pollux_workload as read_pollux_workload


if not TYPE_CHECKING:  # or a checker would take any name for one of these
    __getattr__ = lazily(__name__)
