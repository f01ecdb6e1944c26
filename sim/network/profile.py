"""What one training iteration computes and sends, layer by layer, and how much of it is exposed."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from apportion.annotations import explained
from apportion.checks import choice, label, number
from apportion.errors import InputError, written
from apportion.sim.network.collectives import COLLECTIVES, Cost, end_in_orders_s

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


class Exchange(NamedTuple):
    """A collective operation on so many bytes; no bytes, no exchange."""

    collective: str = "all_reduce"
    size_bytes: float = 0.0


NO_EXCHANGE = Exchange()


class Message(NamedTuple):
    """A collective in one dimension of the network, counted from the inside, from when to when."""

    dimension: int
    begin_s: float
    end_s: float
    exchange: Exchange


class LayerTimeline(NamedTuple):
    """When an iteration ends, and all its messages in the order in which they are issued."""

    end_s: float
    messages: list[Message]


@dataclass(frozen=True)
class Layer:
    """Compute and communication of one layer in one iteration.

    Parameters
    ----------
    name
        As errors show it.
    forward_s, input_gradient_s, weight_gradient_s
        Compute seconds of the three parts.
    weight_gradient
        What is sent once the gradient of the weights is there, while compute goes on: under data
        parallelism the all-reduce of that gradient.
    forward, input_gradient
        What is sent after these parts and waited for, as under model parallelism.

    Raises
    ------
    InputError
        For seconds or bytes that are not finite numbers >= 0, and an unknown collective.
    """

    name: str
    forward_s: float
    input_gradient_s: float
    weight_gradient_s: float
    weight_gradient: Exchange = NO_EXCHANGE
    forward: Exchange = NO_EXCHANGE
    input_gradient: Exchange = NO_EXCHANGE

    def __post_init__(self) -> None:
        label("name of a layer", self.name)
        exchanges = (self.weight_gradient, self.forward, self.input_gradient)
        seconds = (self.forward_s, self.input_gradient_s, self.weight_gradient_s)
        for exchange in exchanges:
            if not isinstance(exchange, Exchange):
                raise InputError(
                    f"The layer {self.name!r} sends {written(exchange)}; give an Exchange."
                )
            choice(f"collective of layer {self.name!r}", exchange.collective, COLLECTIVES)
        for value in (*seconds, *(exchange.size_bytes for exchange in exchanges)):
            number(f"A number of seconds or bytes of layer {self.name!r}", value)


@dataclass(frozen=True)
class ModelProfile:
    """One training iteration of a model, as its network sees it.

    Parameters
    ----------
    name
        Of the model.
    layers
        In the order of the forward pass.

    Raises
    ------
    InputError
        If there are no layers, or they compute nothing.
    """

    name: str
    layers: tuple[Layer, ...]

    @explained
    def __post_init__(self) -> None:
        if not (self.layers and self.compute_s > 0):
            raise InputError(f"The profile of {self.name!r} has no layer that computes.")

    @cached_property
    def compute_s(self) -> float:
        """Compute seconds of an iteration."""
        return sum(x.forward_s + x.input_gradient_s + x.weight_gradient_s for x in self.layers)

    @cached_property
    def parts(self) -> tuple[tuple[float, Exchange, bool], ...]:
        """Parts of an iteration in their order.

        Compute seconds, what is sent after them, and whether that is waited for.
        """
        return tuple(_parts(self.layers))

    @cached_property
    def collectives(self) -> frozenset[str]:
        """Names of the collectives that it uses."""
        return frozenset(sent.collective for _, sent, _ in self.parts if sent.size_bytes)

    @property
    def all_reduce_bytes(self) -> float:
        """Bytes of gradients that are all-reduced in an iteration."""
        return sum(self._gradients())

    @property
    def skew(self) -> float:
        """Largest all-reduced gradient over all of them (Tiresias, NSDI 2019, section 3.3)."""
        return max(self._gradients()) / self.all_reduce_bytes if self.all_reduce_bytes else 0.0

    def _gradients(self) -> list[float]:
        sent = [layer.weight_gradient for layer in self.layers]
        return [one.size_bytes if one.collective == "all_reduce" else 0.0 for one in sent]

    def scaled(self, compute_scale: float) -> ModelProfile:
        """Return the same model with every compute time multiplied.

        Raises
        ------
        InputError
            If the scale is no number above 0.
        """
        if not (compute_scale > 0 and math.isfinite(compute_scale)):
            raise InputError(f"The compute scale is {compute_scale!r}; it must be above 0.")
        layers = (
            replace(
                layer,
                forward_s=layer.forward_s * compute_scale,
                input_gradient_s=layer.input_gradient_s * compute_scale,
                weight_gradient_s=layer.weight_gradient_s * compute_scale,
            )
            for layer in self.layers
        )
        return ModelProfile(self.name, tuple(layers))


def exposed_s(
    profile: ModelProfile, costs: Mapping[str, Sequence[Cost]], last_first: Sequence[bool] = ()
) -> float:
    """Seconds of an iteration during which compute waits for communication, see `timeline`.

    Parameters
    ----------
    profile, costs
        As there.
    last_first
        Whether the message that was issued last is the next in a dimension, and not the first, by
        dimension; by default nowhere.

    Returns
    -------
    float
        End of the iteration minus compute time, in seconds, >= 0.
    """
    if any(last_first):
        return max(0.0, end_in_orders_s(profile.parts, costs, last_first) - profile.compute_s)
    return max(0.0, _end_s(profile, costs, None) - profile.compute_s)


def timeline(profile: ModelProfile, costs: Mapping[str, Sequence[Cost]]) -> LayerTimeline:
    """Follow an iteration: which message is in which dimension of the network, and when.

    Every dimension of the network has one queue and serves one message at a time, in the order in
    which they are issued: gradients of the weights from the last layer to the first, while the
    backward pass goes on. A message passes the dimensions one after the other, so that a later one
    is in an inner dimension while this one is further out. Messages after a forward pass or a
    gradient of the input are waited for at once.

    Parameters
    ----------
    profile
        What is computed and sent.
    costs
        Of each collective that the profile uses, over the gang's placement: one for each
        dimension, see `apportion.sim.network.collectives.phases`.
    """
    messages: list[Message] = []
    return LayerTimeline(_end_s(profile, costs, messages), messages)


def _end_s(
    profile: ModelProfile, costs: Mapping[str, Sequence[Cost]], messages: list[Message] | None
) -> float:
    """Return when an iteration ends, and append its messages, if they are asked for."""
    now = end = 0.0  # when compute goes on, and when the last message is through
    free = [0.0] * max(map(len, costs.values()), default=0)  # when each dimension is free
    for seconds, exchange, waited_for in profile.parts:
        now += seconds
        size_bytes = exchange.size_bytes
        if size_bytes:
            end = now
            for dimension, (latency_s, s_per_byte) in enumerate(costs[exchange.collective]):
                begin = end if end > free[dimension] else free[dimension]
                end = free[dimension] = begin + (latency_s + size_bytes * s_per_byte)
                if messages is not None:
                    messages.append(Message(dimension, begin, end, exchange))
            now = end if waited_for else now
    return max(now, end)


def _parts(layers: Sequence[Layer]) -> Iterator[tuple[float, Exchange, bool]]:
    """Compute seconds of an iteration, what is sent after them, and whether that is waited for."""
    for layer in layers:
        yield layer.forward_s, layer.forward, True
    for layer in reversed(layers):
        yield layer.weight_gradient_s, layer.weight_gradient, False
        yield layer.input_gradient_s, layer.input_gradient, True
