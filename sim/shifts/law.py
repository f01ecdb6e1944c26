"""How long iterations take by the law of the score, for gangs on a topology."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apportion.mechanism.time_shifts import score_of
from apportion.sim.network.topology import jobs_on_links

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from apportion.mechanism.time_shifts import CommunicationProfile
    from apportion.sim.network.topology import Topology


def slowdowns_of(
    topology: Topology,
    gangs: Mapping[Any, Iterable[int]],
    profiles: Mapping[Any, CommunicationProfile],
    shifts_s: Mapping[Any, float],
    periods_s: Mapping[Any, float],
) -> tuple[dict[str, float], dict[Any, float]]:
    """Return the score of each link with several jobs, and each job's iteration over that alone.

    ``stretch * (2 - score)``, by the worst link of the job; stretch is what pacing costs. Who sends
    nothing waits for nobody.

    Parameters
    ----------
    topology, gangs, profiles
        Links, GPUs of each job, what each sends.
    shifts_s, periods_s
        When each job starts, and to which period it is paced.
    """
    capacities = topology.capacities
    scores: dict[str, float] = {}
    worst = dict.fromkeys(gangs, 1.0)
    senders = {job: gpus for job, gpus in gangs.items() if profiles[job].phases}
    for link, jobs in jobs_on_links(topology, senders).items():
        paced = [profiles[job].paced(periods_s[job]) for job in jobs]
        if len(jobs) == 1 and paced[0].peak_gbps <= capacities[link]:
            continue
        score = score_of(paced, capacities[link], [shifts_s[job] for job in jobs])
        if len(jobs) > 1:
            scores[link] = score
        for job in jobs:
            worst[job] = min(worst[job], score)
    return scores, {
        job: periods_s[job] / profiles[job].period_s * (2 - score) for job, score in worst.items()
    }
