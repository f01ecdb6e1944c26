"""What elastic gangs send over links: communication profiles of the steps that they run with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, overload

from apportion.mechanism.time_shifts import CommunicationProfile
from apportion.sim.network.model import network_beside

if TYPE_CHECKING:
    from apportion.mechanism.scheduler import Placement
    from apportion.sim.elastic.speeds import Step, TrueProgress
    from apportion.sim.elastic.trainers import Trainers
    from apportion.sim.network import MemoizedNetwork
    from apportion.sim.network.cassini import CassiniNetwork


class ElasticTypes(Sequence[str]):
    """What each elastic job trains now, as networks that know links ask for job types.

    A step with its accumulation is an iteration. It is silent until its synchronisation, which is
    the part of the step that a gradient by itself would not take, and then sends at the rate of
    the link of a machine: profiles say how long a gang alone synchronises and not how many bytes
    it sends, so that these are what the link carries in that time. Another batch is another type,
    with a period of its own. Applications that the network has a profile of send that one.

    Parameters
    ----------
    trainers, truth
        As of `apportion.sim.elastic.speeds.ElasticSpeeds`.
    network
        Knows Gb/s, and is told the profiles.
    """

    def __init__(self, trainers: Trainers, truth: TrueProgress, network: CassiniNetwork) -> None:
        self._trainers, self._truth = trainers, truth
        self._known = network.profiles
        self._gbps = network.gbps
        self.profiles: dict[str, CommunicationProfile] = dict(network.profiles)

    def __len__(self) -> int:
        return len(self._trainers.applications)

    @overload
    def __getitem__(self, job: int) -> str: ...

    @overload
    def __getitem__(self, job: slice) -> Sequence[str]: ...

    def __getitem__(self, job: int | slice) -> str | Sequence[str]:
        """Return what a job trains with the batch that was chosen last."""
        if isinstance(job, slice):
            return [self[each] for each in range(len(self))[job]]
        ran, kind = self._trainers.running(job), self._trainers.since[job][1]
        return self._named(job, kind, ran.accumulation, ran.step)

    def foreseen(self, job: int, kind: int, placement: Placement) -> str:
        """Return what a job will train where it is to be."""
        counts = tuple(gpus for _, _, gpus in placement)
        local, accumulation = self._trainers.batches(job, kind, counts)
        step = self._truth.step(self._trainers.profiles.on(job, kind), counts, local)
        return self._named(job, kind, accumulation, step)

    def _named(self, job: int, kind: int, accumulation: int, step: Step) -> str:
        """Return the name of a step, and take down its profile."""
        application = self._trainers.applications[job].name
        if application in self._known:
            return application
        relative = float(self._trainers.profiles.relative[job, kind])
        each_s = (step.step_s + accumulation * step.gradient_s) / relative
        apart_s = max(step.step_s - step.gradient_s, 0.0) / relative
        name = f"{application}, {each_s:.12g} s, synchronised in {apart_s:.12g} s"
        if name not in self.profiles:
            phases = [(max(each_s - apart_s, 0.0), apart_s, self._gbps)] if apart_s else []
            self.profiles[name] = CommunicationProfile(name, each_s, phases)
        return name


def types_on_links(
    network: MemoizedNetwork | None,
    placement: str,
    trainers: Trainers,
    truth: TrueProgress,
    *,
    beside_requests: bool = False,
) -> tuple[MemoizedNetwork | None, ElasticTypes | None]:
    """Return a network that knows what elastic gangs send, if it knows links, and their types.

    Parameters
    ----------
    network
        As it was given; others than those of links stay as they are.
    placement
        How gangs are placed.
    trainers, truth
        As of `ElasticTypes`.
    beside_requests
        Whether requests call GPUs back between two decisions. Speeds must not change by themselves
        then, so that shifts are chosen whenever gangs change, and not in epochs.

    Raises
    ------
    InputError
        If the placement compares links and the network knows none.
    """
    network = network_beside(placement, network)
    if network is None or not hasattr(network.model, "for_elastic"):
        return network, None
    types = ElasticTypes(trainers, truth, network.model)  # type: ignore[arg-type]
    model = network.model.for_elastic(types.profiles, beside_requests=beside_requests)
    return replace(network, model=model), types
