"""What an option is worth under the elastic schedulers: DeepBoot, Pollux, Sia, Optimus, Lyra, AFS.

Each function gives one row of V[j, c] for ``whole_choices`` from the definition; None bars the
option. Whole powers are exact fractions; other powers are the float nearest to them.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.oracles.whole_choices import Number

ValueRow = list[Fraction | None]
CEILING = Fraction(3000)
"""The released Sia never lets G^p exceed this."""


def power(base: Number, exponent: float) -> Fraction:
    """Base to an exponent, exact where the exponent is whole."""
    if exponent == int(exponent):
        return Fraction(base) ** int(exponent)
    return Fraction(float(base) ** exponent)


def reallocation_factor(
    age: Number, restarts: int, delay: Number, *, young: str = "formula"
) -> Fraction:
    """r = max(age - restarts * delay, 0) / (age + delay).

    What happens to a young job differs: "formula" leaves it (DeepBoot, Pollux: 0 at age 0),
    "one below delay" sets r = 1 where age < delay (Sia), "one before start" is for the caller to
    say by passing a job that never ran (r = 1, the default of a toolkit that lets it in).
    """
    if young == "one before start" or (young == "one below delay" and age < delay):
        return Fraction(1)
    age, delay = Fraction(age), Fraction(delay)
    return max(age - restarts * delay, Fraction(0)) / (age + delay) if age + delay else Fraction(1)


def damped(worth: Sequence[Number | None], current: int | None, factor: Number) -> ValueRow:
    """Multiply all but the current option by the factor; ``current`` None is no option held."""
    return [
        None if v is None else Fraction(v) * (1 if c == current else Fraction(factor))
        for c, v in enumerate(worth)
    ]


def deepboot(speedup: Sequence[Number | None], current: int | None, factor: Number) -> ValueRow:
    """V = s at the current option, s * r elsewhere."""
    return damped(speedup, current, factor)


def pollux(
    speedup: Sequence[Number | None],
    current: int | None = None,
    factor: Number = 1,
    *,
    p: float = -1,
    scale: Number = 1,
    epsilon: Number = Fraction(1, 1000),
) -> ValueRow:
    """V = eps^p - (s c0 + eps)^p for p < 0, the reverse for p > 0, the ratio's logarithm at p = 0.

    Adding eps^p to every job's term makes "no option" worth 0 and moves no optimum.
    """
    low, rows = Fraction(epsilon), damped(speedup, current, factor)

    def worth(s: Fraction) -> Fraction:
        high = s * Fraction(scale) + low
        if p == 0:
            return Fraction(math.log(high / low))
        return (power(high, p) - power(low, p)) * (1 if p > 0 else -1)

    return [None if s is None else worth(s) for s in rows]


def fitness(
    speedup: Sequence[Number], p: float = -1, *, scale: Number = 1, epsilon: Number = 0
) -> float:
    """FITNESS_p = (mean_j (s_j c0 + eps)^p)^(1/p); geometric mean at 0, the worst job at -inf."""
    terms = [Fraction(s) * Fraction(scale) + Fraction(epsilon) for s in speedup]
    if p == -math.inf or (p <= 0 and min(terms) == 0):
        return float(min(terms))
    if p == 0:
        return math.exp(math.fsum(math.log(t) for t in terms) / len(terms))
    mean = float(sum(power(t, p) for t in terms) / len(terms))
    return math.pow(mean, 1 / p)


def sia(
    goodput: Sequence[Number | None],
    current: int | None = None,
    factor: Number = 1,
    *,
    p: float = -0.5,
    surplus: Number = Fraction(11, 10),
    lowest: Number = 1,
    as_released: bool = False,
) -> ValueRow:
    """V = lambda - G^p for p < 0, G^p + |lambda| for p > 0; V <= 0 can be dropped where not pinned.

    G is the goodput over the least valid one of its row (times ``lowest``, what the least option
    counts for), then times r off the current option: the row's least is taken before the factor.
    G = 0 (r = 0) with p < 0 is worth minus infinity, so it is barred. ``surplus`` is lambda, its
    size only. ``as_released`` rounds G^p to two decimals and caps it at 3000.
    """
    least = min(Fraction(g) for g in goodput if g is not None)
    rows = damped(
        [None if g is None else Fraction(g) / least * Fraction(lowest) for g in goodput],
        current,
        factor,
    )
    size, sign = abs(Fraction(surplus)), -1 if p < 0 else 1

    def worth(g: Fraction | None) -> Fraction | None:
        if g is None or (g == 0 and p < 0 and not as_released):
            return None
        raised = CEILING if g == 0 and p < 0 else power(g, p)
        if as_released:
            raised = min(Fraction(round(float(raised), 2)), CEILING)
        return size + sign * raised

    return [worth(g) for g in rows]


def optimus_greedy(
    step_time: Sequence[Sequence[Number]], remaining: Sequence[Number], gpus: int
) -> list[int]:
    """One GPU each in order, then each next GPU to argmax (t(k) - t(k+1)) * remaining.

    Stops where no next GPU saves time; of equal savings the first job's counts.
    """
    counts = [1 if j < gpus else 0 for j in range(len(step_time))]
    for _ in range(gpus - sum(counts)):
        gains = [
            Fraction(remaining[j]) * (Fraction(t[k - 1]) - Fraction(t[k])) if 0 < k < len(t) else -1
            for j, (t, k) in enumerate(zip(step_time, counts, strict=True))
        ]
        if not gains or max(gains) <= 0:
            break
        counts[gains.index(max(gains))] += 1
    return counts


def lyra_extra(time: Number, base: int, most_extra: int) -> ValueRow:
    """V[e - 1] = T e / (w + e): seconds that e workers beyond w save a job of T seconds on w."""
    return [Fraction(time) * Fraction(e, base + e) for e in range(1, most_extra + 1)]


def lyra_base(time: Sequence[Number], base: Sequence[int], gpus: int) -> list[bool]:
    """Shortest job first for base workers; a job that does not fit is passed over."""
    served = [False] * len(time)
    for j in sorted(range(len(time)), key=lambda j: (time[j], j)):
        if base[j] <= gpus:
            served[j], gpus = True, gpus - base[j]
    return served


def afs(
    speed: Sequence[Sequence[Number]],
    remaining: Sequence[Number],
    gpus: int,
    *,
    a_over: str = "after",
) -> list[int]:
    """AFS-L: each next GPU goes to the job on top of a scan of pairs.

    speed[j][k - 1] is p_j(k), p_j(0) = 0. Both at 0 GPUs: the shorter remaining / p(1) leads.
    Else b is the one with more GPUs (of equal counts the longer job) and leads iff
    (p_b' - p_b) / p_b' > (p_a' - p_a) / d with d = p_a' ("after", the DeepBoot code) or p_a
    ("before"; 0 counts as infinite). Jobs that a further GPU does not speed up take no part.
    """
    counts = [0] * len(speed)

    def at(j: int, k: int) -> Fraction:
        return Fraction(speed[j][k - 1]) if k else Fraction(0)

    def length(j: int) -> tuple[Fraction, int]:
        return Fraction(remaining[j]) / at(j, max(counts[j], 1)), j

    def leader(i: int, j: int) -> int:
        if counts[i] == counts[j] == 0:
            return min(i, j, key=length)
        a, b = sorted((i, j), key=lambda x: (counts[x], length(x)))
        (pa, na), (pb, nb) = ((at(x, counts[x]), at(x, counts[x] + 1)) for x in (a, b))
        below = na if a_over == "after" else pa
        return b if below and (nb - pb) / nb > (na - pa) / below else a

    for _ in range(gpus):
        able = [j for j, k in enumerate(counts) if k < len(speed[j]) and at(j, k + 1) > at(j, k)]
        if not able:
            break
        top = able[0]
        for j in able[1:]:
            top = leader(top, j)
        counts[top] += 1
    return counts
