"""Requests served by themselves, on GPUs that do nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apportion.checks import check_memory, number, whole
from apportion.errors import InputError
from apportion.mechanism.inference import InferenceGpus
from apportion.mechanism.inference.feed import RequestFeed
from apportion.sim.inference.serving import Serving
from apportion.sim.inference.serving_run import ServingRun
from apportion.sim.inference.tables import gpu_states_table, requests_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apportion.mechanism.inference import ProtectTimes

__all__ = ["serve", "serve_alone", "with_slo"]


def serve(
    requests: Any,
    gpus: int,
    *,
    cold_start_s: float | Mapping[str, float] = 6.0,
    protect: ProtectTimes | float = 1.0,
    services_per_gpu: int = 1,
    slo_factor: float | None = None,
    gpus_per_node: int = 4,
) -> ServingRun:
    """Serve requests on GPUs that do nothing else.

    GPUs live as `apportion.mechanism.inference.InferenceGpus` has them, none is ever loaned.

    Parameters
    ----------
    requests
        Columns ``arrival_s``, ``service``, ``duration_s`` and perhaps ``slo_s``, as
        `apportion.sim.inference.generate_requests` makes them, or a csv file with them.
    gpus
        How many, >= 1.
    cold_start_s, protect, services_per_gpu
        As in `apportion.Serving`.
    slo_factor
        Each request should end within so many times its duration, >= 1; for requests that have no
        ``slo_s``.
    gpus_per_node
        GPUs of a node.

    Returns
    -------
    ServingRun
        What became of requests and GPUs, and the figures.

    Raises
    ------
    InputError
        For requests and settings that `apportion.Serving` refuses, fewer than one GPU, and a
        `slo_factor` where requests have an SLO.
    """
    settings = Serving(
        with_slo(requests, slo_factor),
        cold_start_s=cold_start_s,
        protect=protect,
        services_per_gpu=services_per_gpu,
    )
    return serve_alone(settings, whole("gpus", gpus, 1), whole("gpus_per_node", gpus_per_node, 1))


def with_slo(requests: Any, slo_factor: float | None) -> Any:
    """Return requests, those of a table or file with an SLO of so many times their duration."""
    if slo_factor is None:
        return requests
    factor = number("slo_factor", slo_factor, least=1.0)
    table = Serving(requests).requests
    if "slo_s" in table:
        raise InputError("The requests have a column 'slo_s' already; leave slo_factor out.")
    return table.assign(slo_s=factor * table["duration_s"])


def serve_alone(serving: Serving, gpus: int, gpus_per_node: int = 4) -> ServingRun:
    """Serve the requests of checked settings; see `serve`."""
    check_memory("GPUs", gpus, 1_000)
    life = InferenceGpus(
        [gpu // gpus_per_node for gpu in range(gpus)],
        serving.cold_starts,
        serving.protect_times,
        serving.services_per_gpu,
        free_gpu=serving.free_gpu,
    )
    asked = serving.requests
    columns = (asked[name].tolist() for name in ("arrival_s", "service", "duration_s"))
    RequestFeed(life, *columns).rest()
    requests = requests_table(asked, life.served)
    end_s = float(requests["finish_s"].max())
    life.advance(end_s)
    states = gpu_states_table(life.changes, range(gpus), (0.0, end_s))
    return ServingRun(asked, requests, states, gpus)
