"""Order x placement x gate on iterations that share GPUs and links: the parts of a run."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.checks import number
from apportion.errors import InputError, written
from apportion.mechanism.devices import Devices
from apportion.mechanism.gates import GATES, knowing
from apportion.mechanism.orders import ORDERS
from apportion.mechanism.placement import Placer
from apportion.mechanism.placements import PLACEMENTS
from apportion.mechanism.run_to_completion import GatedScheduler, StayNeeds
from apportion.sim.about import Parts
from apportion.sim.iteration_times import iteration_tables
from apportion.sim.links.engine import LinkEngine
from apportion.sim.links.iteration import Iteration, all_reduced, overlapped
from apportion.sim.links.record import Timeline
from apportion.sim.links.runtime import Iterating, LinkMap
from apportion.sim.network.collectives import Cost, all_reduce_cost
from apportion.sim.network.link_sharing import SharedCost, checked_law
from apportion.sim.network.models.trained import trained
from apportion.sim.record import Columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from apportion.mechanism.decider import About
    from apportion.mechanisms import Iterations
    from apportion.sim.about import AboutRun
    from apportion.sim.engine import TrueState
    from apportion.sim.network.link_sharing import LinkSharing
    from apportion.sim.network.models.trained import TrainedModel
    from apportion.sim.workload import Workload


def sharing_of(mechanism: Iterations) -> LinkSharing:
    """Return how links are shared by the settings."""
    if mechanism.sharing is not None:
        return checked_law(mechanism.sharing)
    return SharedCost(
        mechanism.s_per_byte,
        mechanism.penalty_s_per_byte,
        mechanism.startup_s,
        mechanism.counted_over,
    )


def iterations_of(
    truth: TrueState, models: list[TrainedModel], *, startup_s: float, overlap: bool
) -> dict[tuple[int, int], Iteration]:
    """Return what every job does in an iteration on every type that it runs on.

    Its compute takes as long as a step by the job's throughput, shared out as in the profile.
    """
    found: dict[tuple[int, int], Iteration] = {}
    known: dict[tuple[str, float], Iteration] = {}
    for job, option in np.argwhere(truth.speed > 0).tolist():
        profile, compute_s = models[job].profile, float(1 / truth.speed[job, option])
        key = (profile.name, compute_s)
        if key not in known:
            scaled = profile.scaled(compute_s / profile.compute_s)
            if overlap:
                known[key] = overlapped(scaled, startup_s=startup_s)
            else:
                forward_s = math.fsum(layer.forward_s for layer in scaled.layers)
                size = scaled.all_reduce_bytes
                known[key] = all_reduced(
                    forward_s, scaled.compute_s - forward_s, size, startup_s=startup_s
                )
        found[job, option] = known[key]
    return found


def iterations(mechanism: Iterations, decider: Any, about: AboutRun) -> Parts:
    """Let jobs keep their GPUs, and go through iterations on them and on links.

    Whoever brings no order, placement and gate has GPUs by ``"consolidated"`` and for one job each,
    unless settings say otherwise; transfers are served in the order in which jobs came.

    Raises
    ------
    InputError
        For a job that fits no GPU.
    """
    own = decider.terms or GatedScheduler(placement="consolidated", exclusive=True)
    terms = own.under(mechanism)
    gate = GATES.of(terms.gate)
    about.settings |= {
        "placement": PLACEMENTS.name_of(terms.placement),
        "exclusive": terms.exclusive,
    }
    about.settings |= {"order": ORDERS.name_of(terms.order), "gate": gate.name}
    truth, sharing = about.truth, sharing_of(mechanism)
    models = [trained(each) for each in truth.told.job_type]
    _check_memory(about.workload, models, mechanism.gpu_memory_gb)
    memory_gb = dict.fromkeys(about.present.accelerators, float(mechanism.gpu_memory_gb))
    devices = Devices.of(about.present, memory_gb=memory_gb, shared=not terms.exclusive)
    told = about.placed(
        Placer(devices, terms.placement, about.seed),
        lost_s=about.lost_s(mechanism.preemption_overhead_seconds),
        needs=_needs(truth, models, sharing, mechanism),
    )
    scheduler = (decider if decider.terms is None else terms).make(told)
    law, gate = AllReduces.of(mechanism, sharing), knowing(gate, truth.told)
    each = iterations_of(truth, models, startup_s=law.startup_s, overlap=mechanism.overlap)
    timeline = Timeline() if mechanism.timeline else None
    links = LinkMap(told.layout, racks=mechanism.rack_links)
    runtime = Iterating(
        *(truth, LinkEngine(links.gpus, links.links, sharing, gate, timeline, told.ids), links),
        lambda job, option, servers: law.over(servers, each[job, option]),
        time_sliced=not terms.exclusive,
    )
    return Parts(scheduler, runtime, columns=[IterationColumns(runtime, timeline, told)])


class IterationColumns(Columns):
    """GPU-seconds of tasks and bytes sent by each job, and the timeline if one is taken down."""

    def __init__(self, runtime: Iterating, timeline: Timeline | None, told: About) -> None:
        self._runtime, self._timeline, self._told = runtime, timeline, told

    def of_jobs(self, jobs: pd.DataFrame) -> dict[str, Any]:
        """Return what they have computed and sent."""
        return {"computed_gpu_s": self._runtime.computed_s, "sent_bytes": self._runtime.sent}

    def tables(self, schedule: pd.DataFrame | None) -> dict[str, pd.DataFrame]:
        """Return tasks, transfers and iterations, with users' job ids."""
        if self._timeline is None:
            return {}
        each = self._timeline.iterations()
        each.insert(1, "model", [self._told.job_types[job] for job in each["job"].tolist()])
        found = {"tasks": self._timeline.tasks(), "transfers": self._timeline.transfers()}
        for table in (each, *found.values()):
            table["job"] = [self._told.ids[job] for job in table["job"].tolist()]
        return found | iteration_tables(each)


def _check_memory(workload: Workload, models: Sequence[TrainedModel], gpu_memory_gb: float) -> None:
    """Refuse a job that fits no GPU; it would wait for ever."""
    for job, model in zip(workload.jobs.index, models, strict=True):
        if model.memory_gb > gpu_memory_gb:
            raise InputError(
                f"Job {written(job)} ({model.profile.name!r}) takes {model.memory_gb:.4g} GB of "
                f"each GPU; none has more than gpu_memory_gb={gpu_memory_gb:g}."
            )


def _needs(
    truth: TrueState, models: list[TrainedModel], sharing: LinkSharing, mechanism: Iterations
) -> StayNeeds:
    """Return what placements are told of the jobs."""
    size = np.array([model.profile.all_reduce_bytes for model in models])
    with np.errstate(divide="ignore"):
        iteration_s = 1 / truth.speed
    startup_s, each_s = getattr(sharing, "startup_s", 0.0), mechanism.loads_s_per_byte
    return StayNeeds(
        iteration_s,
        startup_s + size * (sharing.s_per_byte if each_s is None else each_s),
        np.array([model.memory_gb for model in models]),
        np.where(size > 0, startup_s + size * sharing.s_per_byte, 0.0),
        counts_transfers=mechanism.loads_count_transfers,
        times_gpus=mechanism.loads_times_gpus,
        turns_count_transfers=mechanism.turns_count_transfers,
    )


_MEASURED_ON = 2  # servers


@dataclass(frozen=True)
class AllReduces:
    """Startup and bytes of an all-reduce among so many servers, by Table I of Wang et al.

    Measured are a and b of a ring of two servers, of which the table makes the latency
    ``alpha = a / 2`` of a message and ``beta = b - gamma / 2`` seconds to send a byte. Among N
    servers a transfer of M bytes then starts up for a(N), and counts as ``b(N) / b M`` bytes on its
    links, so that others who share them slow it down by as much.

    Parameters
    ----------
    startup_s, s_per_byte
        a and b as measured.
    algorithm
        Out of `apportion.sim.network.ALL_REDUCES`; ``None`` for a and b among any number.
    add_s_per_byte
        gamma.
    """

    startup_s: float
    s_per_byte: float
    algorithm: str | None = None
    add_s_per_byte: float = 0.0
    _costs: dict[int, Cost] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        most = 2 * self.s_per_byte
        number("add_s_per_byte", self.add_s_per_byte, most=most)

    @classmethod
    def of(cls, mechanism: Iterations, sharing: LinkSharing) -> AllReduces:
        """Return those that settings ask for, where links are shared by a law."""
        startup_s, algorithm = getattr(sharing, "startup_s", 0.0), mechanism.all_reduce
        return cls(startup_s, sharing.s_per_byte, algorithm, mechanism.add_s_per_byte)

    def cost(self, servers: int) -> Cost:
        """Return a and b among so many servers."""
        if self.algorithm is None:
            return Cost(self.startup_s, self.s_per_byte)
        if servers not in self._costs:
            self._costs[servers] = all_reduce_cost(
                self.algorithm,
                servers,
                alpha_s=self.startup_s / _MEASURED_ON,
                beta_s=self.s_per_byte - self.add_s_per_byte / _MEASURED_ON,
                gamma_s=self.add_s_per_byte,
            )
        return self._costs[servers]

    def over(self, servers: int, iteration: Iteration) -> Iteration:
        """Return an iteration with its transfers as they are among so many servers."""
        if self.algorithm is None or servers < _MEASURED_ON:
            return iteration
        startup_s, s_per_byte = self.cost(servers)
        factor = s_per_byte / self.s_per_byte
        sends = (
            send._replace(size=send.size * factor, startup_s=startup_s) for send in iteration.sends
        )
        return iteration._replace(sends=tuple(sends))
