"""The moment of a run at which most jobs share links, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from apportion.mechanism.devices import Devices
from apportion.sim.network import get_network
from apportion.sim.workload_tables import present_types

if TYPE_CHECKING:
    from collections.abc import Iterator

    from apportion.sim.run import Run
    from apportion.sim.workload import Workload

Link = tuple[str, Any]
Stay = tuple[float, float, Any, int, dict[Link, float]]
Users = dict[Any, tuple[int, float]]

COLUMNS = ("time_s", "link", "gbps", "job", "job_type", "gpus", "period_s", "phases")


def busiest_links(run: Run, workload: Workload, network: Any) -> dict[str, pd.DataFrame]:
    """Return who shares which links when most do, for pictures.

    The moment is the first at which links that several jobs use have most users in all.

    Parameters
    ----------
    run
        Of a mechanism that knows who has which devices.
    workload
        Of the run: what jobs train.
    network
        Of the run: a name or a model; None in rounds of a policy that knows none.

    Returns
    -------
    dict
        ``busiest_links``, a row for each job on each shared link: ``time_s``, ``link`` (the
        accelerator type, and the name of the link in the topology, if there is one), its
        ``gbps``, ``job``, ``job_type``, ``gpus``, and its communication profile, ``period_s`` and
        ``phases`` (of start, seconds, Gb/s). Nothing without a network that knows its links.
    """
    if network is None or "schedule" not in run.tables:
        return {}
    cluster = present_types(run.cluster)
    links = get_network(network, cluster=cluster).gang_links
    if links is None:
        return {}
    pools = Devices.of(cluster).pools
    stays = []
    table = run.schedule
    rows = zip(
        *(table[name] for name in ("start_s", "end_s", "job", "accelerator", "devices")),
        strict=True,
    )
    for start_s, end_s, job, accelerator, devices in rows:
        pool = pools[cluster.accelerators.index(accelerator)]
        used = links.links_of(pool.placement(devices))
        if used:
            of_type = {(accelerator, link): gbps for link, gbps in used.items()}
            stays.append((float(start_s), float(end_s), job, len(devices), of_type))
    time_s, there = _busiest(stays)
    found = []
    job_types = workload.jobs["job_type"]
    for link, users in there.items():
        for job, (gpus, gbps) in users.items():
            job_type = str(job_types.loc[job])
            profile = links.network.profile(job_type, gpus)
            phases = tuple(tuple(phase) for phase in profile.phases)
            about = (job, job_type, gpus, profile.period_s, phases)
            found.append((time_s, _name(*link), gbps, *about))
    return {"busiest_links": pd.DataFrame(found, columns=list(COLUMNS))}


def _name(accelerator: str, link: Any) -> str:
    """Name a link of `GangLinks` as people do; those of a topology have names."""
    if isinstance(link, str):
        return f"{accelerator} {link}"
    level, rack, machine = link
    where = f"rack {rack}" if level == "rack" else f"rack {rack}, machine {machine}"
    return f"{accelerator} {where}"


def _busiest(stays: list[Stay]) -> tuple[float, dict[Link, Users]]:
    """Return the first time at which shared links have most users, and these by link."""
    best, best_s = 0, 0.0
    for time_s, count in _counts(stays):
        if count > best:
            best, best_s = count, time_s
    users: dict[Link, Users] = {}
    for start_s, end_s, job, gpus, links in stays:
        if best and start_s <= best_s < end_s:
            for link, gbps in links.items():
                users.setdefault(link, {})[job] = (gpus, gbps)
    return best_s, {link: users[link] for link in sorted(users) if len(users[link]) > 1}


def _counts(stays: list[Stay]) -> Iterator[tuple[float, int]]:
    """Go through the times at which gangs start: users of links that have several."""
    events = [(stay[0], 1, place) for place, stay in enumerate(stays)]
    events += [(stay[1], 0, place) for place, stay in enumerate(stays)]  # ends come first
    users: dict[Link, int] = {}
    count = 0
    for time_s, starts, place in sorted(events):
        for link in stays[place][-1]:
            before = users.get(link, 0)
            users[link] = after = before + (1 if starts else -1)
            count += (after if after > 1 else 0) - (before if before > 1 else 0)
        if starts:
            yield time_s, count
