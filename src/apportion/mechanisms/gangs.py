"""Mechanisms whose jobs share GPUs in iterations, or change their numbers of GPUs, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from apportion.checks import choice, number
from apportion.checks import seconds as check_seconds
from apportion.errors import InputError
from apportion.mechanisms.settings import LOST, SHORTEST_S, MechanismSettings, about, check_by_type
from apportion.mechanisms.start_costs import stages_by_type

if TYPE_CHECKING:
    from collections.abc import Mapping

_ALL_REDUCES = ("ring", "halving_doubling", "recursive_doubling", "binary_tree")


ON_LINKS = ("cassini", "cassini_by_gang", "cassini_joint", "cassini_program")
"""Placements that compare the links of gangs."""


@dataclass(frozen=True, kw_only=True)
class Iterations(MechanismSettings):
    """Jobs keep their GPUs, which are shared, and go through iterations over links that are shared.

    In every iteration each GPU of a gang computes a forward and a backward pass, one task of one
    job at a time; then gangs in several servers all-reduce their gradients, if a gate lets them.
    The mechanism of every `GatedScheduler`.

    Parameters
    ----------
    order, placement, gate, exclusive
        In place of those of the scheduler.
    gpu_memory_gb
        Memory of every GPU, GB of 2^30 bytes, by which jobs share GPUs.
    s_per_byte, penalty_s_per_byte, startup_s
        b, eta and a: k transfers that share a link take ``a + k b M + (k - 1) eta M`` seconds
        for M bytes each.
    counted_over
        ``"task"``: k is the most transfers on any link of the transfer itself; ``"cluster"``: on
        any link at all, as the text can be read.
    rack_links
        Whether gangs in several racks use a link of each of their racks beside those of servers.
    sharing
        Another way to share links, in place of those figures; see `apportion.sim.contention`.
    turns_count_transfers
        Whether the orders that count time count transfers of gangs in several servers, as long as
        they take alone, as in the text (C + E); or compute only, as in the authors' code.
    loads_count_transfers
        Whether what GPUs have left to do counts transfers of gangs in several servers. It does in
        the text; one line of its Algorithm 1 begins without.
    loads_times_gpus
        Whether what GPUs have left to do are the GPU-seconds of their gangs, as in the text, on
        each GPU; or the seconds, as in the authors' code.
    loads_s_per_byte
        Seconds that a byte of those transfers counts; ``s_per_byte`` by default. The authors' code
        counts 7.8125e-9, as by 1 Gb Ethernet.
    all_reduce
        Algorithm of all-reduces, ``"ring"``, ``"halving_doubling"``, ``"recursive_doubling"`` or
        ``"binary_tree"``: a and b then are those of Table I of Wang et al. for the servers that
        each gang has, where `startup_s` and `s_per_byte` are those of a ring of two. By default a
        gang has these in any number of servers, as in the evaluation of the text and in its code.
    add_s_per_byte
        gamma of that table: seconds to add up a byte of two gradients, a part of `s_per_byte`.
    preemption_overhead_seconds
        Seconds before the first iteration of a job once it has its GPUs, which it then keeps: one
        number, or by job type, as in `apportion.Rounds`.
    overlap
        Whether gradients are sent layer by layer while earlier layers still compute.
    engine
        ``"plain"``, ``"fast"`` (needs numba), or ``"auto"``, the fast one if it can.
    timeline
        Whether every task and transfer is taken down, into the tables ``tasks`` and ``transfers``.

    Raises
    ------
    InputError
        For a setting that is out of range or not of its kind.
    """

    name: ClassVar[str] = "iterations"
    home: ClassVar[str] = "apportion.sim.contention.parts:iterations"

    order: Any = field(default=None, metadata=about("srsf, srtf, fifo, ...: whose turn"))
    placement: Any = field(
        default=None, metadata=about("how gangs get their devices (default: the scheduler's)")
    )
    gate: Any = field(default=None, metadata=about("at_most_1, ada_dual, what_if, ..."))
    exclusive: bool | None = field(
        default=None, metadata=about("one job at a time has a GPU (default: the scheduler's)")
    )
    gpu_memory_gb: float = field(default=16.0, metadata=about("memory of a GPU, GB"))
    s_per_byte: float = field(default=8.53e-10, metadata=about("b: seconds to send a byte"))
    penalty_s_per_byte: float = field(
        default=2.35e-10, metadata=about("eta: seconds that each further transfer adds to a byte")
    )
    startup_s: float = field(default=6.69e-4, metadata=about("a: seconds before the first byte"))
    counted_over: str = field(
        default="task", metadata=about("task or cluster: whose links are counted for k")
    )
    rack_links: bool = field(default=False, metadata=about("racks have links as servers have"))
    sharing: Any = field(default=None, metadata=about("another way to share links"))
    turns_count_transfers: bool = field(
        default=True, metadata=about("whose turn it is counts transfers, too")
    )
    loads_count_transfers: bool = field(
        default=True, metadata=about("what GPUs have left to do counts transfers")
    )
    loads_times_gpus: bool = field(
        default=True, metadata=about("what GPUs have left to do are GPU-seconds of the gangs")
    )
    loads_s_per_byte: float | None = field(
        default=None, metadata=about("seconds that a byte counts there (default: s_per_byte)")
    )
    all_reduce: str | None = field(
        default=None,
        metadata=about("ring, halving_doubling, ...: a and b by servers (default: as of two)"),
    )
    add_s_per_byte: float = field(
        default=0.0, metadata=about("gamma: seconds to add up a byte, with all_reduce")
    )
    preemption_overhead_seconds: float | str | Mapping[str, float] = field(
        default=0.0, metadata=about(LOST), hash=False
    )
    overlap: bool = field(default=False, metadata=about("gradients are sent layer by layer"))
    engine: str = field(default="auto", metadata=about("plain, fast, or auto"))
    timeline: bool = field(default=False, metadata=about("take down every task and transfer"))

    def __post_init__(self) -> None:
        super().__post_init__()
        number("gpu_memory_gb", self.gpu_memory_gb, strict=True)
        number("s_per_byte", self.s_per_byte, strict=True)
        number("penalty_s_per_byte", self.penalty_s_per_byte)
        check_seconds("startup_s", self.startup_s)
        check_by_type("preemption_overhead_seconds", self.preemption_overhead_seconds)
        if self.loads_s_per_byte is not None:
            number("loads_s_per_byte", self.loads_s_per_byte)
        if self.all_reduce is not None:
            choice("all_reduce", self.all_reduce, _ALL_REDUCES)
        number("add_s_per_byte", self.add_s_per_byte)
        choice("counted_over", self.counted_over, ("task", "cluster"))
        choice("engine", self.engine, ("auto", "plain", "fast"))


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
    checkpoint_interval_s
        Under EDL, seconds of work between two checkpoints: what a job has done since the last one
        is lost when requests take a GPU from it. By default nothing is.
    join_mini_batches
        t of EDL: mini-batches that the old workers still do when the new ones are ready, before
        all form another ring.
    leader_seconds
        Under EDL, for how long a gang pauses whose leader is taken from it, the worker on its first
        device: until another one is elected.
    restart_stages
        Seconds of the stages of a restart, in place of `restart_seconds`, their sum:
        ``"container=12,init=8,load=10"``, or a mapping, or one by application, with ``"others"``
        for those that are not named. The jobs table then has the seconds of pauses by stage. For
        ``"stop_resume"``, under which every change takes all stages.
    serving
        Requests that are served on the same cluster, an `apportion.Serving`, or their table alone;
        by default none.
    network
        ``"contention"``, ``"contention_expected"``, or a `ContentionNetwork`: gangs in several
        machines slow each other down where they share one; or ``"cassini"``, ``"phases"``, one of
        these with ``"_unshifted"``, or a `CassiniNetwork`: their phases meet on links. By default
        none does: the measured synchronisation is that of a gang alone. The policy is told, and
        learns, speeds without it.
    topology
        As in `apportion.Rounds`.
    placement
        ``"packed"`` into few machines; or ``"cassini"``, ``"cassini_by_gang"``,
        ``"cassini_joint"`` or ``"cassini_program"``: gangs that have been packed come to as many
        GPUs of other machines where these suit their links better.

    Raises
    ------
    InputError
        For a setting that is out of range or not of its kind, and an unknown name.
    """

    name: ClassVar[str] = "configurations"
    home: ClassVar[str] = "apportion.sim.elastic.parts:configurations"
    elastic: ClassVar[bool] = True

    interval_seconds: float = field(default=60.0, metadata=about("time between two decisions"))
    restart: str = field(
        default="stop_resume",
        metadata=about("stop_resume, afe or edl: what a change costs", "gang_restart"),
    )
    restart_seconds: float | Mapping[str, float] | None = field(
        default=None,
        metadata=about("seconds of a restart (default: the application's, or 30)"),
        hash=False,
    )
    rescale_seconds: float | Mapping[str, float] | None = field(
        default=None,
        metadata=about("seconds to form another ring (default: as above, or 3)"),
        hash=False,
    )
    growth: float = field(
        default=2.0, metadata=about("most GPUs of a job, times those that it ever had")
    )
    gang_sizes: str | None = field(
        default=None, metadata=about("every or whole_nodes (default: the latter for Sia)")
    )
    goodputs: str = field(
        default="told",
        metadata=about("told, fitted to what each job has run, one_type, or virtual_nodes"),
    )
    keep_paused: bool = field(
        default=False, metadata=about("jobs keep their GPUs while they restart")
    )
    reallocation_seconds: float | Mapping[str, float] | None = field(
        default=None,
        metadata=about("of a restart, as the policy weighs a change (default: what it takes)"),
        hash=False,
    )
    checkpoint_interval_s: float | None = field(
        default=None,
        metadata=about("under EDL, between checkpoints; work since is lost with a reclaimed GPU"),
    )
    join_mini_batches: float = field(
        default=0.0, metadata=about("under EDL, mini-batches until workers join that are ready")
    )
    leader_seconds: float = field(
        default=0.0, metadata=about("under EDL, to elect another leader if it is taken away")
    )
    restart_stages: Any = field(
        default=None, metadata=about("container=12,init=8,load=10: a restart by stage, seconds")
    )
    serving: Any = field(
        default=None, metadata=about("csv of requests that are served on the same cluster")
    )
    network: Any = field(
        default=None,
        metadata=about("contention, cassini, phases, ...: gangs that share links slow down"),
    )
    topology: Any = field(
        default=None, metadata=about("cassini, dgx_h100_pod, ... or a .toml file: its links")
    )
    placement: Any = field(
        default="packed", metadata=about("packed, cassini, cassini_program, ...: where gangs come")
    )

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
        number("join_mini_batches", self.join_mini_batches)
        check_seconds("leader_seconds", self.leader_seconds)
        for name, none in (("join_mini_batches", 0.0), ("leader_seconds", 0.0)):
            if getattr(self, name) != none and self.restart != "edl":
                raise InputError(
                    f"{name}={getattr(self, name)!r} is for gang_restart='edl'; leave it out."
                )
        if self.restart_stages is not None:
            stages_by_type(self.restart_stages)
            if self.restart_seconds is not None or self.restart != "stop_resume":
                raise InputError(
                    "restart_stages= stands in place of restart_seconds, and is for gang_restart="
                    "'stop_resume'; leave one of them out."
                )
        number("growth", self.growth, least=1.0, infinite=True)
        if self.checkpoint_interval_s is not None:
            number("checkpoint_interval_s", self.checkpoint_interval_s, strict=True, infinite=True)
            if self.restart != "edl":
                raise InputError(
                    f"checkpoint_interval_s={self.checkpoint_interval_s!r} is for gang_restart="
                    f"'edl'; under {self.restart!r} jobs save what they have when workers change."
                )
            if self.serving is None:
                raise InputError(
                    "checkpoint_interval_s is for runs with serving=, in which GPUs are called "
                    "back; leave it out."
                )
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
