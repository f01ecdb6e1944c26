"""Why a job has what it has: the limits that bind it, prices, and who stands before it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from apportion.allocation import Allocation
    from apportion.policies.sessions.session_allocation import SessionAllocation
    from apportion.service.known import Known
    from apportion.sim.one_round.decision import RoundDecision

__all__ = ["explain_devices", "explain_shares"]

_NONE = 1e-6
"""Shares of time, and GPUs, that count as none."""
_SHOWN = 5


def explain_shares(
    job: str, allocation: Allocation | SessionAllocation, known: Known
) -> dict[str, Any]:
    """Explain what a job has of a policy of shares.

    Returns
    -------
    dict
        ``shares`` by accelerator and their sum ``time``; ``steps_per_s``, and ``alone_steps_per_s``
        on the fastest type all the time; ``limited_by``: ``"time"`` (it runs all the time, so no
        GPU more would help it), ``"GPUs"`` (all that it could use are taken), or ``"the policy"``;
        ``full`` types with their ``prices``, what one more GPU would improve the objective by;
        ``holders``, who has most of the full types; and all of it as a ``sentence``.
    """
    name, throughput = job, allocation.throughput
    speeds, gang = known.told(name), int(known.facts[name].get("scale_factor", 1))
    X: Any = allocation.X
    shares = {str(kind): float(share) for kind, share in X.loc[job].items()}
    gangs = np.array([int(known.facts[str(each)].get("scale_factor", 1)) for each in X.index])
    used = {str(kind): float(X[kind].to_numpy() @ gangs) for kind in X.columns}
    gpus = {kind: known.cluster.gpus.get(kind, 0) for kind in shares}
    usable = [kind for kind in shares if speeds.get(kind, 0.0) > 0 and gpus[kind] >= gang]
    full = [kind for kind in usable if used[kind] >= gpus[kind] - _NONE * max(1, gpus[kind])]
    time = sum(shares.values())
    fastest = max(usable, key=lambda kind: speeds[kind])
    if time >= 1 - _NONE and shares[fastest] >= 1 - _NONE:
        limit = "time"
    else:
        limit = "GPUs" if full else "the policy"
    prices = {str(kind): float(price) for kind, price in allocation.prices.items()}
    holders = {
        kind: [
            {"job": str(other), "gpus": round(float(held), 9)}
            for other, held in (X[kind] * gangs).nlargest(_SHOWN).items()
            if held > _NONE
        ]
        for kind in full
    }
    found: dict[str, Any] = {
        "job": name,
        "shares": {kind: round(share, 9) for kind, share in shares.items()},
        "time": round(time, 9),
        "steps_per_s": float(throughput[name]),
        "alone_steps_per_s": speeds[fastest],
        "limited_by": limit,
        "full": full,
        "prices": {kind: prices.get(kind, 0.0) for kind in full},
        "holders": holders,
    }
    return {**found, "sentence": _of_shares(found, fastest, allocation)}


def _of_shares(found: dict[str, Any], fastest: str, allocation: Any) -> str:
    has = [f"{100 * each:.1f} % of its time on {k}" for k, each in found["shares"].items() if each]
    text = f"Job {found['job']} has {' and '.join(has) or 'no time'}"
    text += f", {found['steps_per_s']:.4g} steps/s of {found['alone_steps_per_s']:.4g} alone."
    if found["limited_by"] == "time":
        return f"{text} It runs all the time on {fastest}, its fastest type: more GPUs do not help."
    if found["limited_by"] == "GPUs":
        dear = {kind: price for kind, price in found["prices"].items() if price > 0}
        text += f" All of {' and '.join(found['full'])} that it could use is taken"
        if dear:
            kind = max(dear, key=lambda each: dear[each])
            unit = f" {allocation.unit}" if allocation.unit else ""
            text += f"; one more {kind} would improve the objective by {dear[kind]:.4g}{unit}"
        return f"{text}."
    return f"{text} GPUs are free, and the policy {allocation.policy} gains nothing by giving more."


def explain_devices(job: str, decided: RoundDecision) -> dict[str, Any]:
    """Explain where a job is in a decision about devices.

    Returns
    -------
    dict
        ``status`` (started, extended, moved, preempted or waiting), ``accelerator`` and
        ``devices``, ``before``: who stands before it, the jobs that have devices in the order of
        the decision; ``waiting``: how many wait; and a ``sentence``.
    """
    row = decided.table().T[job].to_dict()
    has = [str(each) for each in decided.plan.jobs]
    waits = not row["devices"]
    before = has if waits else has[: has.index(job)]
    found = {
        "job": job,
        "status": str(row["status"]),
        "accelerator": str(row["accelerator"]) or None,
        "devices": [int(each) for each in row["devices"]],
        "before": before[:_SHOWN],
        "before_it": len(before),
        "waiting": len(decided.waiting),
        "valid_for_s": decided.valid_for_s if np.isfinite(decided.valid_for_s) else None,
    }
    if waits:
        first = f", {', '.join(before[:_SHOWN])} first" if before else ""
        text = f"Job {job} is {row['status']}: {len(before)} jobs stand before it{first}."
    else:
        where = ", ".join(map(str, row["devices"]))
        text = f"Job {job} is {row['status']} on {row['accelerator']} {where}; {len(before)} jobs "
        text += "stand before it in this decision."
    return {**found, "sentence": text}
