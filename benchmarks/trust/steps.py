"""Compare steps/s where a policy determines those of every job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.trust.verdict import TOLERANCE

if TYPE_CHECKING:
    from benchmarks.trust.ask import Answer
    from benchmarks.trust.case import Floats
    from benchmarks.trust.definitions.facts import Facts
    from benchmarks.trust.verdict import Verdict

# The library says that it takes shares of time below this for none (`make_feasible`).
LEAST_SHARE = 1e-12


def check_steps(
    facts: Facts, answer: Answer, theirs: Floats, verdict: Verdict, doubt: float = 0.0
) -> None:
    """Compare the steps/s of every job with those of an oracle that is exact to `doubt`."""
    ours = facts.thr @ facts.vector(answer.X)
    nothing = theirs < 1e-9 * facts.fast
    scale = np.where(nothing, facts.fast, np.maximum(theirs, 1e-300))
    apart = np.maximum(np.abs(ours - theirs) - LEAST_SHARE * facts.fast, 0.0) / scale
    job = int(np.argmax(apart))
    verdict.ours, verdict.theirs, verdict.error = ours[job], theirs[job], float(apart[job])
    if apart[job] > TOLERANCE + 10 * doubt:
        text = f"job {job} makes {ours[job]:.9g} steps/s, not {theirs[job]:.9g}"
        verdict.blame("off", apart[job], text)
    elif apart[job] > TOLERANCE:
        verdict.undecided = f"the oracle is exact to {doubt:.1e}"
