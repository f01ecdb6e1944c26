"""What no schedule is below, beside what was simulated, where a cluster is changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.report.tables import time_unit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apportion.cluster import Cluster
    from apportion.sim.floors import Floor


def floors_in_words(
    floors: Mapping[str, Floor],
    clusters: Mapping[str, Cluster],
    means_s: Mapping[str, Mapping[str, float]],
) -> list[str]:
    """Say what floors and simulated mean completion times become, of one draw of jobs.

    Parameters
    ----------
    floors, clusters
        By change, today's first.
    means_s
        Mean completion times of the same draw, by policy and change, seconds.
    """
    today = floors["today"]
    unit, seconds = time_unit(today.mean_jct_s)
    said = []
    for change, floor in floors.items():
        if change == "today":
            continue
        pairs = [
            f"{each['today'] / seconds:.2f} -> {each[change] / seconds:.2f} under {policy}"
            for policy, each in means_s.items()
        ]
        least = f"{today.mean_jct_s / seconds:.2f} -> {floor.mean_jct_s / seconds:.2f} {unit}"
        said.append(
            f"{change} in the first draw alone: mean JCT {', '.join(pairs)}; no schedule is below "
            f"{least} (x {floor.mean_jct_s / today.mean_jct_s:.2f})."
        )
    worth = [f"one more {kind} {s / 60:.1f} min" for kind, s in today.shorter_by_s.items()]
    margin = f"That bound falls at the margin by: {', '.join(worth)}"
    measured = [
        f"{change} {_per_gpu_min(each, change, clusters):.1f} min under {policy}"
        for policy, each in means_s.items()
        for change in floors
        if change != "today"
    ]
    if measured:
        margin += f"; simulated, for each GPU of {', '.join(measured)}"
    return [*said, f"{margin}."]


def _per_gpu_min(
    means_s: Mapping[str, float], change: str, clusters: Mapping[str, Cluster]
) -> float:
    """Return by how much the mean is shorter for each GPU more, minutes."""
    more = clusters[change].total_gpus - clusters["today"].total_gpus
    return (means_s["today"] - means_s[change]) / more / 60
