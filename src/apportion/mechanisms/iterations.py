"""The mechanism whose jobs share GPUs and links in iterations, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from apportion.checks import choice, number
from apportion.checks import seconds as check_seconds
from apportion.mechanisms.settings import LOST, MechanismSettings, check_by_type, described

if TYPE_CHECKING:
    from collections.abc import Mapping

_ALL_REDUCES = ("ring", "halving_doubling", "recursive_doubling", "binary_tree")


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
        Another way to share links, in place of those figures; see `apportion.sim.links`.
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
    timeline
        Whether every task, transfer and iteration is taken down, into the tables ``tasks``,
        ``transfers``, ``iterations`` and ``iteration_times``.

    Raises
    ------
    InputError
        For a setting that is out of range or not of its kind.
    """

    name: ClassVar[str] = "iterations"
    home: ClassVar[str] = "apportion.sim.links.parts:iterations"

    order: Any = described(None, "srsf, srtf, fifo, ...: whose turn")
    placement: Any = described(None, "how gangs get their devices (default: the scheduler's)")
    gate: Any = described(None, "at_most_1, ada_dual, ...")
    exclusive: bool | None = described(
        None, "one job at a time has a GPU (default: the scheduler's)"
    )
    gpu_memory_gb: float = described(16.0, "memory of a GPU, GB")
    s_per_byte: float = described(8.53e-10, "b: seconds to send a byte")
    penalty_s_per_byte: float = described(
        2.35e-10, "eta: seconds that each further transfer adds to a byte"
    )
    startup_s: float = described(6.69e-4, "a: seconds before the first byte")
    counted_over: str = described("task", "task or cluster: whose links are counted for k")
    rack_links: bool = described(False, "racks have links as servers have")
    sharing: Any = described(None, "another way to share links")
    turns_count_transfers: bool = described(True, "whose turn it is counts transfers, too")
    loads_count_transfers: bool = described(True, "what GPUs have left to do counts transfers")
    loads_times_gpus: bool = described(
        True, "what GPUs have left to do are GPU-seconds of the gangs"
    )
    loads_s_per_byte: float | None = described(
        None, "seconds that a byte counts there (default: s_per_byte)"
    )
    all_reduce: str | None = described(
        None, "ring, halving_doubling, ...: a and b by servers (default: as of two)"
    )
    add_s_per_byte: float = described(0.0, "gamma: seconds to add up a byte, with all_reduce")
    preemption_overhead_seconds: float | str | Mapping[str, float] = described(
        0.0, LOST, hash=False
    )
    overlap: bool = described(False, "gradients are sent layer by layer")
    timeline: bool = described(False, "take down every task, transfer and iteration")

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
