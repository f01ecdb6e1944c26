"""Requests served in batches by replicas of a model, on GPUs of one or several types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from apportion.cluster import Cluster
from apportion.errors import InputError, written
from apportion.mechanism.inference.replicas import BatchSpeed, Replicas
from apportion.sim.inference.limits import steps_of
from apportion.sim.inference.read import requests_given
from apportion.sim.inference.served import ServingRun

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from apportion.mechanism.inference.replicas import ServedInBatches
    from apportion.sim.inference.limits import ServingLimits
    from apportion.sim.inference.served_model import ServedModel
    from apportion.types import Bools, Floats


def serve_replicas(
    requests: Any, model: ServedModel, gpus: Cluster | Mapping[str, int] | str
) -> ServingRun:
    """Serve requests by as many replicas of a model as fit some GPUs.

    All replicas have the model loaded, and take from one queue, see
    `apportion.mechanism.inference.replicas`. Types that are faster with one request come first.
    Each replica is on one machine; GPUs of a machine that hold none stay free.

    Parameters
    ----------
    requests
        A table or csv, see `apportion.read_requests`: arrival_s, and what the model needs:
        context_tokens and generated_tokens, or duration_s, or nothing else. All ask this model.
    model
        GPUs of a replica, and how fast it is.
    gpus
        Of each type: a `Cluster`, a mapping, or ``"a100=8,h100=4"``.

    Returns
    -------
    ServingRun
        Its requests have, besides `apportion.sim.inference.SERVED_COLUMNS`, accelerator, replica,
        ``ttft_s`` and ``tpot_s``; ``gpu`` is the first of the replica, ``cold`` never true.

    Raises
    ------
    InputError
        For requests without what the model needs, types that it does not know, machines smaller
        than a replica, and GPUs that hold no replica.
    """
    cluster = Cluster.of(gpus)
    asked = asked_of(requests, model)
    fleet = {name: model.replicas(cluster, name) for name in cluster.accelerators}
    if not sum(fleet.values()):
        raise InputError(f"No replica fits the GPUs {cluster}: one needs {model.gpus!r}.")
    present = [name for name, count in fleet.items() if count]
    if not fits(model, present, asked):
        held = tokens_of(model, asked)
        raise InputError(
            f"Request {written(asked.index.tolist()[int(held.argmax())])} has {held.max():,.0f} "
            f"tokens, with those that it gets; cache_tokens of a replica are at most "
            f"{max(map(model.cache_of, present)):,.0f} on {', '.join(present)}."
        )
    order = in_order(model, fleet, asked)
    served = replicas_of(model, fleet, asked).run()
    if served is None:
        raise RuntimeError("Requests were not served to the end.")
    where = _places(model, cluster, fleet, order)
    return _run(asked, served, order, where, cluster)


def asked_of(requests: Any, model: ServedModel) -> pd.DataFrame:
    """Return requests with what a model needs, checked, in order of arrival.

    Raises
    ------
    InputError
        For what they lack.
    """
    if isinstance(requests, pd.DataFrame) and "service" not in requests:
        requests = requests.assign(service="model")
    found = requests_given(requests, sized=False)
    if not len(found):
        raise InputError("There are no requests.")
    needs = (
        ("context_tokens", "generated_tokens")
        if model.by_tokens
        else ()
        if model.request is not None
        else ("duration_s",)
    )
    for name in needs:
        if name not in found:
            raise InputError(
                f"The requests have no column {name!r}, which the model needs; they have: "
                f"{', '.join(map(str, found.columns))}. read_requests(csv, columns={{{name!r}: "
                f"'its name in the file'}}) reads it."
            )
    return found


def replicas_of(
    model: ServedModel,
    fleet: Mapping[str, int],
    asked: pd.DataFrame,
    limits: ServingLimits | None = None,
) -> Replicas:
    """Return so many replicas of each type, that serve requests, unless limits are missed."""
    order = in_order(model, fleet, asked)
    known = {name: speeds_of(model, name, asked) for name in set(order)}
    return Replicas(
        [known[name] for name in order],
        asked["arrival_s"].to_numpy(dtype=np.float64).tolist(),
        steps_of(model, asked).tolist(),
        None if limits is None else limits.late,
        tokens_of(model, asked).tolist(),
    )


def tokens_of(model: ServedModel, asked: pd.DataFrame) -> Floats:
    """Return the tokens that each request holds in the memory of a replica."""
    if not model.by_tokens:
        return np.zeros(len(asked))
    held: Floats = asked[["context_tokens", "generated_tokens"]].to_numpy(dtype=float).sum(axis=1)
    return held


def fits(model: ServedModel, names: Iterable[str], asked: pd.DataFrame) -> bool:
    """Whether every request fits a replica of one of some types at least."""
    most = max((model.cache_of(name) for name in names), default=0.0)
    return bool(tokens_of(model, asked).max() <= most)


def in_order(model: ServedModel, fleet: Mapping[str, int], asked: pd.DataFrame) -> list[str]:
    """Return the type of each replica: what is faster alone comes first, then by name."""
    place = [int(len(asked) // 2)]
    alone = {
        name: speeds_of(model, name, asked).first_s(place)
        + float((model.batch_seconds(name) or [0.0])[0]) * bool(model.by_tokens)
        for name, count in fleet.items()
        if count
    }
    names = sorted(alone, key=lambda name: (alone[name], name))
    return [name for name in names for _ in range(fleet[name])]


def speeds_of(model: ServedModel, accelerator: str, asked: pd.DataFrame) -> BatchSpeed:
    """Return how fast a replica of a type is with these requests."""
    model.of_replica(accelerator)
    by_batch = model.batch_seconds(accelerator)
    if model.by_tokens:
        tokens = asked["context_tokens"].to_numpy(dtype=np.float64).tolist()
        prefill = model.prefill_seconds(accelerator)

        def of_prompts(places: Sequence[int]) -> float:
            return prefill(sum(tokens[place] for place in places))

        cache = model.cache_of(accelerator)
        return BatchSpeed(of_prompts, [0.0, *by_batch], len(by_batch), cache)
    if model.request is not None:
        return BatchSpeed(lambda places: by_batch[len(places) - 1], [0.0], len(by_batch))
    seconds = asked["duration_s"].to_numpy(dtype=np.float64).tolist()
    most = model.batch or 1
    return BatchSpeed(lambda places: max(seconds[place] for place in places), [0.0], most)


def _places(
    model: ServedModel, cluster: Cluster, fleet: Mapping[str, int], order: Sequence[str]
) -> list[list[int]]:
    """Return the GPUs of each replica, numbered type by type and machine by machine."""
    free: dict[str, list[list[int]]] = {}
    first = 0
    for name, count in cluster.gpus.items():
        each, size = model.of_replica(name), cluster.machine_size(name)
        free[name] = [
            list(range(first + start + k, first + start + k + each))
            for start in range(0, count, size)
            for k in range(0, min(size, count - start) - each + 1, each)
        ][: fleet[name]]
        first += count
    left = {name: iter(places) for name, places in free.items()}
    return [next(left[name]) for name in order]


def _run(
    asked: pd.DataFrame,
    served: ServedInBatches,
    order: Sequence[str],
    where: Sequence[Sequence[int]],
    cluster: Cluster,
) -> ServingRun:
    """Return the tables of what became of requests and GPUs."""
    arrival_s = asked["arrival_s"].to_numpy(dtype=np.float64)
    steps: Floats = np.zeros(0)
    table = pd.DataFrame(
        {
            "service": asked["service"].to_numpy(),
            "arrival_s": arrival_s,
            "start_s": served.start_s,
            "finish_s": served.finish_s,
            "delay_s": served.start_s - arrival_s,
            "gpu": np.array([each[0] for each in where])[served.replica],
            "cold": False,
            "accelerator": np.array(order, dtype=object)[served.replica],
            "replica": served.replica,
            "ttft_s": served.first_s - arrival_s,
            "request_s": served.finish_s - arrival_s,
        },
        index=asked.index,
    )
    if "generated_tokens" in asked:
        steps = np.maximum(asked["generated_tokens"].to_numpy(dtype=np.float64) - 1, 0)
        several: Bools = (steps > 0) & (served.finish_s > served.first_s)
        tpot_s = np.full(steps.size, np.nan)
        np.divide(served.finish_s - served.first_s, steps, out=tpot_s, where=several)
        table.insert(10, "tpot_s", tpot_s)
    if "slo_s" in asked:
        latest_s = arrival_s + asked["slo_s"].to_numpy()
        table["slo_met"] = served.finish_s <= latest_s + 1e-9 * np.maximum(latest_s, 1.0)
    return ServingRun(asked, table, _states(served, where, cluster, asked), cluster.total_gpus)


def _states(
    served: ServedInBatches, where: Sequence[Sequence[int]], cluster: Cluster, asked: pd.DataFrame
) -> pd.DataFrame:
    """Return when each GPU ran and when it was free; see `GPU_STATE_COLUMNS`."""
    end_s = float(served.finish_s.max())
    name = "+".join(sorted(asked["service"].unique()))
    busy: dict[int, list[tuple[float, float]]] = {}
    for replica, from_s, to_s in served.busy:
        for gpu in where[replica]:
            busy.setdefault(gpu, []).append((from_s, to_s))
    rows: list[tuple[int, str, str, None, float, float]] = []
    for gpu in range(cluster.total_gpus):
        since_s = 0.0
        for from_s, to_s in busy.get(gpu, []):
            if from_s > since_s:
                rows.append((gpu, "free", "", None, since_s, from_s))
            rows.append((gpu, "running", name, None, from_s, to_s))
            since_s = to_s
        if end_s > since_s:
            rows.append((gpu, "free", "", None, since_s, end_s))
    return pd.DataFrame(rows, columns=["gpu", "state", "service", "job", "from_s", "to_s"])
