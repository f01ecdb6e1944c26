"""Max-min fairness under a cap on the power that GPUs may draw."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from apportion.checks import number
from apportion.cluster import ACCELERATORS
from apportion.errors import InputError
from apportion.policies import MaxMinFairness, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import cvxpy as cp


@dataclass(frozen=True)
class PowerCapped(MaxMinFairness):
    r"""Max-min fairness such that the GPUs that are held never draw more than a cap.

    .. math:: \max_X \min_i \frac{s_i}{w_i} \frac{\mathrm{thr}_i}{\mathrm{eq}_i}\ \text{such
        that}\ \sum_j P_j \sum_i s_i X_{ij} \le C

    The problem::

        max over X of min over jobs of scale_factor / weight * throughput / equal share,
        sum over types of watts * GPUs held <= cap

    A GPU that is held draws the largest power of its type, one that is not held nothing: it is
    switched off. Simulations keep the cap at every instant, not on average.

    Parameters
    ----------
    cap_w
        The cap, watts; infinite for none.
    watts
        Power of one GPU by type, W; of types that are not named here that of `accelerators`.
    """

    name = "power_capped"
    source = "a linear constraint on max_min_fairness; watts from data sheets"
    _bounds_resources = True

    cap_w: float = math.inf
    watts: Mapping[str, float] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        """Check switches and watts."""
        super().__post_init__()
        number("cap_w", self.cap_w, words="a number of watts", infinite=True)
        for accelerator, each in self.watts.items():
            number(f"watts of {accelerator!r}", each, words="a number of watts")

    def constraints(self, p: Problem) -> Sequence[cp.Constraint]:
        """Limit the power of all GPUs that are held; a type of unknown power is refused by name."""
        if self.cap_w == math.inf:
            return []
        sheets = {name: each.watts for name, each in ACCELERATORS.items() if each.watts > 0}
        known = sheets | dict(self.watts)
        if unknown := [name for name in p.accelerators if name not in known]:
            raise InputError(
                f"{self.name} needs the power of a GPU of each type, and {unknown[0]!r} is none of "
                f"those in accelerators() that tell it; give watts={{{unknown[0]!r}: 300.0}} with "
                f"what one draws at most."
            )
        each_w = [known[name] for name in p.accelerators]
        return [(p.held[: len(each_w)] @ each_w <= self.cap_w).set_label("power cap")]
