"""Gates by name."""

from __future__ import annotations

import math

from apportion.errors import InputError, written
from apportion.mechanism.gates.built_in import AdaDual, AtMost, KWay
from apportion.mechanism.gates.gate import Gate
from apportion.mechanism.gates.rollout import Rollout, WhatIf
from apportion.registry import Registry

__all__ = ["GATES", "get_gate"]

GATES: Registry[Gate] = Registry(
    "gate",
    "apportion.gates",
    {
        "always": AtMost(math.inf),
        **{gate.name: gate for n in (1, 2, 3) for gate in (AtMost(n), AtMost(n, "pair"))},
        "ada_dual": AdaDual(),
        "ada_dual_as_written": AdaDual("first"),
        "k_way": KWay(),
        "what_if": WhatIf(),
        "rollout": Rollout(),
    },
    lambda value: isinstance(value, Gate) and not isinstance(value, type),
)
"""Gates by name; one of one's own is added by assigning it."""


def get_gate(gate: str | Gate) -> Gate:
    """Return a gate by name, or the gate itself.

    Raises
    ------
    InputError
        For an unknown name, with the nearest one, and for what is no gate.
    """
    if isinstance(gate, str):
        return GATES[gate]
    if isinstance(gate, type) or not isinstance(gate, Gate):
        raise InputError(
            f"The gate is {written(gate)}; it must be one of {', '.join(GATES)}, or an object with "
            f"a name and decide(now_s, flow, links)."
        )
    return gate
