"""Mechanisms of policies and queues, which say who has how much of what, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from apportion.checks import number
from apportion.errors import InputError
from apportion.mechanisms.settings import (
    LOST,
    SHORTEST_S,
    TICK_S,
    MechanismSettings,
    check_by_type,
    described,
)
from apportion.mechanisms.timers import check_timers

if TYPE_CHECKING:
    from collections.abc import Mapping

_EVERY = "most time between two solves (default: an hour where the policy depends on time)"


@dataclass(frozen=True, kw_only=True)
class Rounds(MechanismSettings):
    """Shares of time are carried out in rounds, as in Gavel.

    Parameters
    ----------
    seconds
        Length of a round.
    resolve_seconds
        Least time between two solves of the policy, seconds; 0 solves at the start of every round
        before which a job has arrived or completed. (Gavel: 1920.)
    preemption_overhead_seconds
        Seconds that a job loses whenever it starts, resumes or moves, or joins another on its
        devices: one number, or one by job type, with ``"others"`` for those that are not named.
    resolve_every
        Most time between two solves, seconds: at the next round after it the policy is solved again
        though no job has arrived or completed. None, the default, is for a policy that depends on
        time (it reads ``elapsed_s`` or ``waited_s``: finish-time fairness, deadlines)
        `resolve_seconds`, or an hour if that is 0, and infinite for others.
    placement
        How gangs get their devices: ``"consolidated"``, ``"first_fit"``, ``"random"``, ...
    placement_sensitive
        Whether a gang whose GPUs sit in more than one machine runs at its unconsolidated
        throughput, which the workload must have. Gavel's simulator lets it run as if it were whole.
        The policy is told the unconsolidated throughput of gangs that no machine holds.
    carry_over
        Whether jobs keep what they are owed when the policy is solved again. Without, as Gavel has
        it, the time received is counted anew, and the shares are missed the more, the more often
        the policy is solved. None, the default, becomes whether it is solved on every event
        (``resolve_seconds=0``).
    leases
        Whether a job that runs again on the same type keeps its devices and goes on. Without, every
        job is stopped at the end of its round and pays `preemption_overhead_seconds` in each.
    network
        A network model or its name, as in `Leases`, that slows gangs down by where they sit; by
        default none: communication is in the throughputs.
    tiers
        Whether shares are of tiers of each type (machine, rack, network) rather than of types, as
        in Gavel's text: the policy is told how fast each gang is in a machine, in a rack and beyond
        it, and a gang has the time in each that it has a share for. Without, as in Gavel's code,
        it knows types only, and gangs lie as it happens. None, the default, becomes whether
        `network` or `placement_sensitive` slows some gang down by where it is, for policies that
        know types and do not share GPUs.
    topology
        Which links there are, for a network that knows them (``"cassini"``, ``"phases"``): a
        `Topology`, the name of one, or a ``.toml`` file, see `apportion.sim.network.get_topology`.

    Raises
    ------
    InputError
        For a setting that is out of range or not of its kind, and an unknown name.
    """

    name: ClassVar[str] = "rounds"
    home: ClassVar[str] = "apportion.sim.on_devices:rounds"
    tells_speeds: ClassVar[bool] = True
    tells_pairs: ClassVar[bool] = True

    seconds: float = described(360.0, "length of a round", "round_seconds")
    resolve_seconds: float = described(0.0, "least time between two solves")
    resolve_every: float | None = described(None, _EVERY)
    preemption_overhead_seconds: float | str | Mapping[str, float] = described(
        0.0, LOST, hash=False
    )
    placement: Any = described("consolidated", "how gangs get their devices")
    placement_sensitive: bool = described(False, "slow down gangs that are split over machines")
    carry_over: bool | None = described(
        None, "keep what jobs are owed at a new solve (default: yes, if on every event)"
    )
    leases: bool = described(True, "a job that runs again on the same type keeps its devices")
    network: Any = described(None, "table1, alpha_beta, ...: slow down gangs by their shapes")
    topology: Any = described(None, "cassini, dgx_h100_pod, ... or a .toml file: its links")
    tiers: bool | None = described(
        None, "shares are of machines, racks and beyond (default: if gangs slow down)"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        number("round_seconds", self.seconds, least=SHORTEST_S)
        name = "preemption_overhead_seconds"
        for of, overhead in check_by_type(name, self.preemption_overhead_seconds):
            if not overhead < self.seconds:
                raise InputError(
                    f"{name}{of} is {overhead!r}; it must be a number >= 0 "
                    f"and less than round_seconds ({self.seconds:g}), or a job might never get "
                    f"anywhere."
                )
        if self.carry_over is None:
            object.__setattr__(self, "carry_over", self.resolve_seconds == 0)


@dataclass(frozen=True, kw_only=True)
class Leases(MechanismSettings):
    """GPUs in machines and racks are offered to waiting jobs and held for a lease.

    A network model says how much slower a gang is where it sits. The mechanism of schedulers;
    policies then share out time over the tiers machine, rack and network.

    Parameters
    ----------
    seconds
        Length of a lease. That of the scheduler where left out, 3600 for policies.
    checkpoint_seconds_per_gpu
        How long after the end of a lease the GPUs of a gang are free, per GPU; one number, or by
        job type. That of the scheduler where left out, 1 for policies.
    preemption_overhead_seconds
        Seconds of its lease that a job loses whenever it starts, moves, or resumes after a wait, as
        in `Rounds`. Those of the scheduler where left out, none for policies.
    network
        A network model or its name, see `apportion.sim.network.get_network`.
    topology
        As in `Rounds`.
    resolve_seconds
        Least time between two solves of a policy, seconds.
    resolve_every
        Most time between two solves, as in `Rounds`; the shares are needed when GPUs are free.
    placement
        How gangs get their devices, as in `Rounds`. That of the scheduler where left out,
        ``"best_fit"`` for policies.
    timers
        Delay timers, for which jobs hold out for a machine and then for a rack: ``"none"``,
        ``"manual"`` (12 h and 24 h), ``"tuned"``, two numbers of seconds such as
        ``"3600,7200"``, or a value, see `apportion.mechanism.leases.timers`. Those of the scheduler
        where left out, ``"tuned"`` for policies that place gangs, ``"none"`` for others.

    Raises
    ------
    InputError
        For a setting that is out of range or not of its kind, and an unknown name.
    """

    name: ClassVar[str] = "leases"
    home: ClassVar[str] = "apportion.sim.leasing.parts:leases"
    tells_speeds: ClassVar[bool] = True
    tick_s: ClassVar[float] = TICK_S

    network: Any = described("table1", "table1, alpha_beta, none, ...")
    topology: Any = described(None, "cassini, dgx_h100_pod, ... or a .toml file: its links")
    seconds: float | None = described(
        None, "length of a lease (default: 3600, or the scheduler's)", "lease_seconds"
    )
    checkpoint_seconds_per_gpu: float | Mapping[str, float] | None = described(
        None, "from its end to the return of the GPUs (default: 1, or the scheduler's)", hash=False
    )
    preemption_overhead_seconds: float | str | Mapping[str, float] | None = described(
        None, LOST, hash=False
    )
    resolve_seconds: float = described(0.0, "least time between two solves")
    resolve_every: float | None = described(None, _EVERY)
    placement: Any = described(None, "how gangs get their devices (default: the scheduler's)")
    timers: Any = described(
        None,
        "none, manual, tuned, or two numbers of seconds: for how long jobs hold out "
        "for a machine, and for a rack (default: the scheduler's)",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.timers is not None:
            check_timers(self.timers)
        if self.seconds is not None:
            number("lease_seconds", self.seconds, least=SHORTEST_S)
        for name in ("checkpoint_seconds_per_gpu", "preemption_overhead_seconds"):
            if getattr(self, name) is not None:
                check_by_type(name, getattr(self, name))


@dataclass(frozen=True, kw_only=True)
class Exact(MechanismSettings):
    """Every share is had exactly, from event to event: what the policy itself is worth.

    Parameters
    ----------
    resolve_seconds
        Least time between two solves of the policy, seconds.
    resolve_every
        Most time between two solves, as in `Rounds`.

    Raises
    ------
    InputError
        For a setting that is out of range or not of its kind.
    """

    name: ClassVar[str] = "exact"
    home: ClassVar[str] = "apportion.sim.on_devices:exact"
    tells_speeds: ClassVar[bool] = True

    resolve_seconds: float = described(0.0, "least time between two solves")
    resolve_every: float | None = described(None, _EVERY)


@dataclass(frozen=True, kw_only=True)
class Queue(MechanismSettings):
    """Jobs have devices in the order of a queue, which is asked whenever anything happens.

    The mechanism of every `QueueScheduler`.

    Parameters
    ----------
    preemption_overhead_seconds
        Seconds that a job loses whenever it starts, resumes or moves, as in `Rounds`.
    placement
        How gangs get their devices, as in `Rounds`.
    network
        A network model or its name, as in `Rounds`; by default none.
    topology
        As in `Rounds`.

    Raises
    ------
    InputError
        For a setting that is out of range or not of its kind, and an unknown name.
    """

    name: ClassVar[str] = "queue"
    home: ClassVar[str] = "apportion.sim.on_devices:queue"

    preemption_overhead_seconds: float | str | Mapping[str, float] = described(
        0.0, LOST, hash=False
    )
    placement: Any = described("consolidated", "how gangs get their devices")
    network: Any = described(None, "table1, alpha_beta, ...: slow down gangs by their shapes")
    topology: Any = described(None, "cassini, dgx_h100_pod, ... or a .toml file: its links")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_by_type("preemption_overhead_seconds", self.preemption_overhead_seconds)
