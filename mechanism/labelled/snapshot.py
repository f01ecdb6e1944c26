"""The state of a round scheduler as plain data, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from apportion.cluster import Cluster
from apportion.errors import InputError, written

if TYPE_CHECKING:
    from collections.abc import Hashable

    from apportion.mechanism.core import RoundCore
    from apportion.mechanism.labelled.rows import LabelledRows

    Where = dict[Hashable, tuple[str, tuple[int, ...]]]

__all__ = ["Snapshot", "read_snapshot", "snapshot"]


class Snapshot(NamedTuple):
    """What `RoundScheduler.from_state` puts together."""

    cluster: Cluster
    settings: dict[str, Any]
    core: dict[str, Any]
    labels: list[tuple[Hashable, ...]]
    scale: dict[Hashable, int]
    where: Where
    number: int


def snapshot(
    cluster: Cluster, core: RoundCore, rows: LabelledRows, where: Where, number: int
) -> dict[str, Any]:
    """Write down a scheduler between two rounds in lists, numbers and texts."""
    spec = asdict(cluster)
    # JSON knows no NaN, by which a cluster says that it has no price.
    spec["prices_per_gpu_hour"] = {k: v for k, v in spec["prices_per_gpu_hour"].items() if v == v}
    return {
        "cluster": spec,
        "settings": {
            "round_seconds": float(core.round_seconds),
            "placement": core.placer.strategy,
            "carry_over": core.carry_over,
            "work_conserving": core.work_conserving,
        },
        "core": core.state(),
        "labels": [[_plain(job) for job in label] for label in rows.labels],
        "scale": [[_plain(job), gpus] for job, gpus in rows.scale.items()],
        "where": [[_plain(job), name, list(devices)] for job, (name, devices) in where.items()],
        "round": number,
    }


def read_snapshot(state: Mapping[str, Any]) -> Snapshot:
    """Read what `snapshot` wrote.

    Raises
    ------
    InputError
        If a part is missing.
    """
    for part in ("cluster", "settings", "core", "labels", "scale", "where", "round"):
        if not isinstance(state, Mapping) or part not in state:
            raise InputError(f"The state of the round scheduler has no {part!r}.")
    return Snapshot(
        cluster=Cluster(**state["cluster"]),
        settings=dict(state["settings"]),
        core=state["core"],
        labels=[tuple(label) for label in state["labels"]],
        scale={job: gpus for job, gpus in state["scale"]},
        where={job: (name, tuple(devices)) for job, name, devices in state["where"]},
        number=int(state["round"]),
    )


def _plain(job: Hashable) -> str | float:
    """Return a job id as JSON can hold it."""
    plain = job.item() if isinstance(job, np.generic) else job
    if not isinstance(plain, (str, int, float)):
        raise InputError(
            f"Job {written(job)} cannot be written to the state: job ids must be texts or numbers, "
            f"not {type(job).__name__}."
        )
    return plain
