"""One link shared equally: the closed forms, and the best starts by trying all of them.

With c(m) = m b + (m - 1) eta and no latency, costs are sums of completion times from now on:

    1. sizes s_(1) <= ... <= s_(m) begun together:  sum_l s_(l) [b + 2 (m - l) (b + eta)].
    2. M begun on running rests R_l adds  D_0 = b M + 2 (b + eta) sum_l min(M, R_l).
    3. M begun after the j-th of them ends adds  D_j = T_j + b M + 2 (b + eta) sum_(l > j)
       min(M, R_(l) - R_(j)),  T_j = sum_(i <= j) (R_(i) - R_(i - 1)) c(k - i + 1).
    4. Between ends the cost is concave in the start: the best start is 0 or some T_j.
       M begins now iff D_0 < D_j for all j >= 1.

Also the all-reduce costs of Table I and the limits of AdaDUAL.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING

from tests.oracles.shared_links import Law, Network, Start, Transfer, completions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.oracles.whole_choices import Number


def together(sizes: Sequence[Number], law: Law) -> Fraction:
    """Sum of completion times of transfers begun together (1)."""
    b, both, m = Fraction(law.b), Fraction(law.b) + Fraction(law.eta), len(sizes)
    ranked = sorted(Fraction(s) for s in sizes)
    return sum((s * (b + 2 * (m - n) * both) for n, s in enumerate(ranked, 1)), Fraction(0))


def added(size: Number, rests: Sequence[Number], law: Law, after: int = 0) -> Fraction:
    """D_j of a transfer begun after the j-th running one ends; D_0 begins now (2, 3)."""
    ranked, both = sorted(Fraction(r) for r in rests), Fraction(law.b) + Fraction(law.eta)
    steps = [Fraction(0), *ranked]
    ends = range(1, after + 1)
    each = ((steps[i] - steps[i - 1]) * law.per_byte(len(ranked) - i + 1) for i in ends)
    waits = sum(each, Fraction(0))
    shared = sum((min(Fraction(size), r - steps[after]) for r in ranked[after:]), Fraction(0))
    return waits + Fraction(law.b) * Fraction(size) + 2 * both * shared


def begins_now(size: Number, rests: Sequence[Number], law: Law) -> bool:
    """Tell whether the k-way rule lets a transfer begin now (4); a tie waits."""
    now = added(size, rests, law)
    return all(now < added(size, rests, law, j) for j in range(1, len(rests) + 1))


def limit(law: Law, k: int = 1) -> Fraction:
    """Largest M / R (excluded) that begins on k equal rests: (k b + (k-1) eta) / (2 k (b + eta)).

    k = 1 is AdaDUAL's b / (2 (b + eta)).
    """
    return law.per_byte(k) / (2 * k * (Fraction(law.b) + Fraction(law.eta)))


def on_one_link(rests: Sequence[Number], law: Law) -> Network:
    """A link with running transfers, past their latency."""
    running = (Transfer(i, ("link",), Fraction(0), Fraction(r)) for i, r in enumerate(rests))
    return Network(law, list(running))


def cost_of_starts(
    rests: Sequence[Number], sizes: Sequence[Number], at: Sequence[Number], law: Law
) -> Fraction:
    """Sum of completion times of all, waiting ones beginning at given times, by simulation."""
    starts = [Start(Fraction(t), ("link",), Fraction(s)) for s, t in zip(sizes, at, strict=True)]
    return sum(completions(on_one_link(rests, law), starts).values(), Fraction(0))


def best_starts(rests: Sequence[Number], sizes: Sequence[Number], law: Law) -> Fraction:
    """Least sum of completion times over all starts of the waiting at 0 or at an end of another.

    At each event every subset of the waiting may begin; none only where something runs.
    """

    def search(net: Network, waiting: tuple[tuple[int, Fraction], ...]) -> Fraction:
        if not waiting:
            return sum(completions(net).values(), Fraction(0))
        costs = []
        for many in range(len(waiting) + 1):
            for chosen in combinations(range(len(waiting)), many):
                after = net.copy()
                for i in chosen:
                    after.start(waiting[i][0], ["link"], waiting[i][1])
                left = tuple(w for i, w in enumerate(waiting) if i not in chosen)
                if left and not after.running:
                    continue
                passed = _to_next_end(after) if left else Fraction(0)
                alive = len(after.running) + len(left)
                after.take_ended()
                costs.append(passed * alive + search(after, left))
        return min(costs)

    named = enumerate((Fraction(s) for s in sizes), len(rests))
    return search(on_one_link(rests, law), tuple(named))


def _to_next_end(net: Network) -> Fraction:
    passed = Fraction(0)
    while not any(t.over for t in net.running):
        step = net.until_change() or Fraction(0)
        net.advance(step)
        passed += step
    return passed


def all_reduce(
    algorithm: str, n: int, alpha: float, beta: float, gamma: float
) -> tuple[float, float]:
    """Table I: (a, b) of an all-reduce over n nodes; alpha s, beta and gamma s/byte, log2."""
    log = math.log2(n)
    table = {
        "binary tree": (2 * alpha * log, (2 * beta + gamma) * log),
        "recursive doubling": (alpha * log, (beta + gamma) * log),
        "halving and doubling": (2 * alpha * log, 2 * beta - (2 * beta + gamma) / n + gamma),
        "ring": (2 * (n - 1) * alpha, 2 * (n - 1) / n * beta + (n - 1) / n * gamma),
    }
    return table[algorithm]
