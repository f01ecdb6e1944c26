"""The mechanism whose jobs change their numbers of GPUs, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from apportion.checks import choice, number
from apportion.errors import InputError
from apportion.mechanisms.settings import SHORTEST_S, MechanismSettings, check_by_type, described
from apportion.mechanisms.start_costs import stages_by_type

if TYPE_CHECKING:
    from collections.abc import Mapping

ON_LINKS = ("cassini", "cassini_by_gang")
"""Placements that compare the links of gangs."""


@dataclass(frozen=True, kw_only=True)
class Configurations(MechanismSettings):
    """Elastic jobs get a type and a number of GPUs anew in every interval, and pay for changes.

    The mechanism of every `ElasticWorkload`, for policies that decide in whole numbers: ``"sia"``,
    ``"pollux"``, ``"deepboot"``, ``"optimus"``, ...

    Parameters
    ----------
    interval_seconds
        Time between two decisions.
    restart
        ``"stop_resume"``, ``"afe"`` or ``"edl"``: what a change costs, see
        `apportion.mechanism.configurations.lost_seconds`. A change during a pause starts the pause
        anew.
    restart_seconds, rescale_seconds
        Seconds of a restart, and of the forming of another ring, in place of what the workload says
        of the applications: a number, or one for each application, with ``"others"`` for those that
        are not named. Where neither says anything, 30 and 3.
    growth
        A job may have at most so many times the GPUs that it ever had; a new one may have one.
        Infinite: no limit.
    gang_sizes
        ``"every"`` number of GPUs; or ``"whole_nodes"``: powers of two within a machine, else whole
        machines, so that no machine has two distributed jobs. By default those for Sia, else every.
    goodputs
        What the policy is told: ``"told"``, by a model fitted to the whole profile of the
        application; ``"fitted"``, to what the job has run so far; ``"one_type"``,
        to the profile of the application itself, as if all types were alike: so Pollux has it.
        ``"virtual_nodes"``: types are not even seen. All machines are cut into machines of the
        smallest size, in an order drawn by the seed; a gang whose GPUs turn out to be of several
        types trains on those of its commonest, and the others are idle until the next interval.
    keep_paused
        Whether jobs keep what they have while they pause, as under Sia.
    reallocation_seconds
        Seconds of a restart that the policy reckons with when it weighs a change, a number or by
        application; by default those that it takes. (10 in the released DeepBoot, 30 in Pollux.)
    restart_stages
        Seconds of the stages of a restart, in place of `restart_seconds`, their sum:
        ``"container=12,init=8,load=10"``, or a mapping, or one by application, with ``"others"``
        for those that are not named. The jobs table then has the seconds of pauses by stage. For
        ``"stop_resume"``, under which every change takes all stages.
    serving
        Requests that are served on the same cluster, an `apportion.Serving`, or their table or csv
        alone, this perhaps with settings in brackets; by default none.
    network
        ``"contention"``, ``"contention_expected"``, or a `ContentionNetwork`: gangs in several
        machines slow each other down where they share one; or ``"cassini"``, ``"phases"``, one of
        these with ``"_unshifted"``, or a `CassiniNetwork`: their phases meet on links. By default
        none does: the measured synchronisation is that of a gang alone. The policy is told, and
        learns, speeds without it.
    topology
        As in `apportion.Rounds`.
    placement
        ``"packed"`` into few machines; or ``"cassini"`` or ``"cassini_by_gang"``: gangs that have
        been packed come to as many GPUs of other machines where these suit their links better.

    Raises
    ------
    InputError
        For a setting that is out of range or not of its kind, and an unknown name.
    """

    name: ClassVar[str] = "configurations"
    home: ClassVar[str] = "apportion.sim.elastic.parts:configurations"
    elastic: ClassVar[bool] = True

    interval_seconds: float = described(60.0, "time between two decisions")
    restart: str = described(
        "stop_resume", "stop_resume, afe or edl: what a change costs", "gang_restart"
    )
    restart_seconds: float | Mapping[str, float] | None = described(
        None, "seconds of a restart (default: the application's, or 30)", hash=False
    )
    rescale_seconds: float | Mapping[str, float] | None = described(
        None, "seconds to form another ring (default: as above, or 3)", hash=False
    )
    growth: float = described(2.0, "most GPUs of a job, times those that it ever had")
    gang_sizes: str | None = described(None, "every or whole_nodes (default: the latter for Sia)")
    goodputs: str = described(
        "told", "told, fitted to what each job has run, one_type, or virtual_nodes"
    )
    keep_paused: bool = described(False, "jobs keep their GPUs while they restart")
    reallocation_seconds: float | Mapping[str, float] | None = described(
        None, "of a restart, as the policy weighs a change (default: what it takes)", hash=False
    )
    restart_stages: Any = described(
        None, "container=12,init=8,load=10: a restart by stage, seconds"
    )
    serving: Any = described(
        None, "csv of requests served on the same cluster: 'r.csv(gpus=8, reclaim=random)'"
    )
    network: Any = described(
        None, "contention, cassini, phases, ...: gangs that share links slow down"
    )
    topology: Any = described(None, "cassini, dgx_h100_pod, ... or a .toml file: its links")
    placement: Any = described("packed", "packed, cassini or cassini_by_gang: where gangs come")

    def __post_init__(self) -> None:
        super().__post_init__()
        number("interval_seconds", self.interval_seconds, least=SHORTEST_S)
        if self.placement != "packed" and self.placement not in ON_LINKS:
            raise InputError(
                f"placement={self.placement!r} is for gangs of a given size; elastic gangs are "
                f"packed when their sizes are chosen. Valid: 'packed', and where the network knows "
                f"links {', '.join(map(repr, ON_LINKS))}."
            )
        choice("gang_restart", self.restart, ("stop_resume", "afe", "edl"))
        for name in ("restart_seconds", "rescale_seconds", "reallocation_seconds"):
            if getattr(self, name) is not None:
                check_by_type(name, getattr(self, name))
        if self.restart_stages is not None:
            stages_by_type(self.restart_stages)
            if self.restart_seconds is not None or self.restart != "stop_resume":
                raise InputError(
                    "restart_stages= stands in place of restart_seconds, and is for gang_restart="
                    "'stop_resume'; leave one of them out."
                )
        number("growth", self.growth, least=1.0, infinite=True)
        if self.gang_sizes is not None:
            choice("gang_sizes", self.gang_sizes, ("every", "whole_nodes"))
        choice("goodputs", self.goodputs, ("told", "fitted", "one_type", "virtual_nodes"))
        self._check_virtual_nodes()

    def _check_virtual_nodes(self) -> None:
        """Refuse what asks on which machines gangs are where that is not told."""
        settings = {"gang_restart": self.restart == "edl", "serving": self.serving is not None}
        settings |= {"network": self.network is not None}
        for name in [name for name, told in settings.items() if told]:
            if self.goodputs == "virtual_nodes":
                value = "'edl'" if name == "gang_restart" else "..."
                raise InputError(
                    f"{name}={value} knows on which machines and types gangs are, which "
                    f"goodputs='virtual_nodes' hides; leave one of them out."
                )
