"""What a job does in one iteration: tasks on each of its GPUs, and transfers among them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from apportion.checks import number, whole
from apportion.errors import InputError, written

if TYPE_CHECKING:
    from collections.abc import Iterable

    from apportion.sim.network.profile import ModelProfile


class Send(NamedTuple):
    """One transfer of an iteration.

    Attributes
    ----------
    size
        Bytes.
    after
        Tasks that every worker must have done before: a barrier.
    most
        Highest bytes/s that it can use.
    startup_s
        Seconds on its links before the first byte moves: a of ``a + b M``.
    """

    size: float
    after: int
    most: float = math.inf
    startup_s: float = 0.0


class Iteration(NamedTuple):
    """One iteration: every worker does its tasks in order, the job its transfers in order.

    The next one begins when all of it is over. A gang within one server has no links: transfers
    without a highest rate then take no time, others take what that rate makes of them.

    Attributes
    ----------
    gpu_s
        Seconds of each task on each worker.
    sends
        Transfers.
    needs
        How many of the transfers must be over before a worker may begin each task, by task.
    """

    gpu_s: tuple[float, ...]
    sends: tuple[Send, ...] = ()
    needs: tuple[int, ...] = ()

    @property
    def compute_s(self) -> float:
        """Seconds that each GPU computes."""
        return math.fsum(self.gpu_s)

    @property
    def size(self) -> float:
        """Bytes that are transferred."""
        return math.fsum(send.size for send in self.sends)

    def checked(self, what: str) -> Iteration:
        """Return it with every task's needs, if it can be carried out.

        Raises
        ------
        InputError
            If a number is negative or not finite, if nothing takes time, or if a task and a
            transfer wait for each other; `what` says whose iteration it is.
        """
        for task, seconds in enumerate(self.gpu_s):
            number(f"Seconds of task {task} of {what}", seconds)
        for send in self.sends:
            number(f"Bytes that {what} sends", send.size)
            number(f"Bytes/s at most of {what}", send.most, strict=True, infinite=True)
            number(f"Startup seconds of {what}", send.startup_s)
            whole(f"Tasks before a transfer of {what}", send.after, 0, len(self.gpu_s))
        needs = self.needs or (0,) * len(self.gpu_s)
        if len(needs) != len(self.gpu_s):
            raise InputError(f"{len(needs)} needs for {len(self.gpu_s)} tasks of {what}.")
        if not (self.compute_s > 0 or self.size > 0):
            raise InputError(f"An iteration of {what} takes no time: nothing computes or sends.")
        # Needs never fall: tasks are in order, and so are transfers.
        needs = tuple(max(needs[: task + 1]) for task in range(len(needs)))
        done = sent = 0
        while done < len(needs) or sent < len(self.sends):
            if done < len(needs) and needs[done] <= sent:
                done += 1
            elif sent < len(self.sends) and self.sends[sent].after <= done:
                sent += 1
            else:
                raise InputError(
                    f"Task {done} of {what} waits for transfer {needs[done] - 1}, and that for it."
                )
        return self._replace(needs=needs)


def all_reduced(
    forward_s: float, backward_s: float, size: float, *, startup_s: float = 0.0
) -> Iteration:
    """Return the iteration of data parallelism: forward, backward, then one all-reduce of it all.

    Raises
    ------
    InputError
        For negative numbers.
    """
    sends = (Send(size, 2, startup_s=startup_s),) if size else ()
    return Iteration((forward_s, backward_s), sends).checked("an all-reduced iteration")


def overlapped(
    profile: ModelProfile, *, bucket_bytes: float = 25e6, startup_s: float = 0.0
) -> Iteration:
    """Return an iteration in which gradients are sent while earlier layers still compute.

    The backward pass goes from the last layer to the first; as soon as the gradients since the
    last transfer reach a bucket, they are sent, one transfer after the other. The next forward
    pass waits for all of them.

    Parameters
    ----------
    profile
        Compute and gradients of every layer.
    bucket_bytes
        Bytes that are sent together at least; 0 sends every layer by itself. PyTorch has 25 MB.
    startup_s
        Seconds of every transfer before its first byte.
    """
    number("bucket_bytes", bucket_bytes)
    forward_s = math.fsum(layer.forward_s for layer in profile.layers)
    tasks, sends, part_s, size = [forward_s], [], 0.0, 0.0
    for layer in reversed(profile.layers):
        part_s += layer.input_gradient_s + layer.weight_gradient_s
        size += layer.weight_gradient.size_bytes
        if size > 0 and size >= bucket_bytes:
            tasks.append(part_s)
            sends.append(Send(size, len(tasks), startup_s=startup_s))
            part_s = size = 0.0
    if part_s or size:
        tasks.append(part_s)
    if size:
        sends.append(Send(size, len(tasks), startup_s=startup_s))
    return Iteration(tuple(tasks), tuple(sends)).checked(f"the profile {profile.name!r}")


class Phase(NamedTuple):
    """Part of an iteration that computes, sends, or does both at once, and ends when both are done.

    Attributes
    ----------
    gpu_s
        Seconds on each GPU; 0 if nothing is computed.
    size
        Bytes; 0 if nothing is sent.
    most
        Highest bytes/s.
    """

    gpu_s: float = 0.0
    size: float = 0.0
    most: float = math.inf


def in_phases(phases: Iterable[Phase]) -> Iteration:
    """Return the iteration that goes through phases one by one, a barrier after each that sends.

    Raises
    ------
    InputError
        For negative numbers, or if all of it takes no time.
    """
    tasks: list[float] = []
    needs: list[int] = []
    sends: list[Send] = []
    for phase in phases:
        if not isinstance(phase, Phase):
            raise InputError(f"{written(phase)} is among the phases; it must be a Phase.")
        before = len(sends), len(tasks)
        if phase.gpu_s:
            tasks.append(phase.gpu_s)
            needs.append(before[0])
        if phase.size:
            sends.append(Send(phase.size, before[1], phase.most))
    return Iteration(tuple(tasks), tuple(sends), tuple(needs)).checked("an iteration in phases")
