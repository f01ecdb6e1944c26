"""What is answered: shares of time, or devices and what has changed about them; and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.service.known import TABLES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apportion.service.certified import CertifiedDevices, CertifiedShares
    from apportion.service.known import Known


_DIGITS = 9


def age_of(certified: CertifiedShares | CertifiedDevices, known: Known, number: int) -> Any:
    """Return of which message an answer is, and how old it is; null where there was none yet.

    A decision that stands longer is late only if something was told since that it does not know.
    """
    age_s = None if certified.number == 0 else known.now_s - certified.at_s
    late = certified.number < number and not certified.stands(known)
    return {"of_number": certified.number, "age_s": age_s, "late": late}


def shares_answer(shares: CertifiedShares, known: Known, only: list[str] | None) -> dict[str, Any]:
    """Return shares of time with their certificate."""
    X = shares.X if only is None else shares.X.reindex(only)
    speeds = shares.throughput if only is None else shares.throughput.reindex(only)
    kinds = [str(each) for each in X.columns]
    rows = zip(X.index, X.to_numpy().tolist(), speeds.tolist(), strict=True)
    return {
        "shares": {
            str(job): {
                "time": {
                    kind: round(share, _DIGITS)
                    for kind, share in zip(kinds, row, strict=True)
                    if share > 0
                },
                "steps_per_s": _rounded(speed),
            }
            for job, row, speed in rows
            if speed == speed and str(job) in known.facts  # of a late answer
        },
        "prices": {kind: _rounded(price) for kind, price in shares.prices.items()},
        "objective": None if shares.objective is None else _rounded(shares.objective),
        "unit": shares.unit,
        "gap": shares.gap,
        "status": shares.status,
    }


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def devices_answer(
    devices: CertifiedDevices, known: Known, only: list[str] | None, age_s: float
) -> dict[str, Any]:
    """Take up who has devices from now on; return that, and what has changed.

    Of a decision that is late, what still holds is taken up: jobs that are gone, and devices that
    are gone, are left out. Of jobs whose devices had gone, those that have others are moved, the
    rest are preempted. What has changed is told of every job, of whomever one asked: it happens.
    """
    before, lost = dict(known.running), [*known.lost]
    now = {job: held for job, held in devices.running.items() if known.holds(job, *held)}
    known.keep(now, devices.shares)
    named = {
        "started": [job for job in now if job not in before and job not in lost],
        "moved": [job for job in now if job in lost or before.get(job, now[job]) != now[job]],
        "preempted": [job for job in (*before, *lost) if job not in now],
        "waiting": [
            job
            for job in dict.fromkeys((*devices.status, *known.facts))
            if job in known.facts and not (job in now or job in before or job in lost)
        ],
    }
    if only is not None:
        named["waiting"] = [job for job in named["waiting"] if job in only]
    told = None if only is None else {*only, *named["started"], *named["moved"]}
    left_s = devices.valid_for_s
    return {
        "devices": {
            job: {"accelerator": name, "devices": list(held)}
            for job, (name, held) in now.items()
            if told is None or job in told
        },
        "valid_for_s": None if left_s is None else max(0.0, left_s - age_s),
        **devices.about,
        **named,
    }


def state_answer(known: Known) -> dict[str, Any]:
    """Return everything that is known, as the schema of answers has it."""
    tables: dict[str, dict[str, Any]] = {name.lstrip("_"): {} for name in TABLES}
    for name, job, value in known.entries():
        tables[name.lstrip("_")][job] = value
    for job, (accelerator, held) in known.running.items():
        tables["running"][job] = {"accelerator": accelerator, "devices": list(held)}
    tables["seen"] = {
        job: {name: {"steps": each[0], "seconds": each[1]} for name, each in seen.items()}
        for job, seen in tables["seen"].items()
        if seen
    }
    rest = known.rest()
    if known.estimates is not None:
        learnt, kinds = rest["estimates"], [str(each) for each in known.estimates.columns]
        rows = zip(learnt["measured"]["rows"], learnt["told"], strict=True)
        rest["estimates"] = {name: dict(zip(kinds, row, strict=True)) for name, row in rows}
    rest["cluster"]["gpus"] = dict(known.cluster.gpus)
    return {**rest, **tables}


def record_of(answer: Mapping[str, Any], at_s: float) -> dict[str, Any]:
    """Return what is logged of a decision: its figures, and how many jobs are in each list."""
    told = {"id": answer["id"], "number": answer["number"], "at_s": at_s}
    for name, each in answer["decision"].items():
        told[name] = len(each) if isinstance(each, dict | list) else each
    return told


_NONE = 1e-6
"""Shares of time, and GPUs, that count as none."""
_SHOWN = 5


def explain_nothing(job: str, known: Known) -> dict[str, Any]:
    """Explain why a job for which there are no GPUs has none: ``limited_by`` the cluster."""
    gang = int(known.facts[job].get("scale_factor", 1))
    speeds = {name: each for name, each in known.told(job).items() if each > 0}
    here = " and ".join(f"{known.usable(name)} {name}" for name in speeds)
    text = f"Job {job} cannot run: it needs {gang} GPUs of one type on which it has a speed, and "
    return {
        "job": job,
        "limited_by": "the cluster",
        "sentence": f"{text}there are {here or 'none of such a type'}.",
    }


def explain_shares(job: str, allocation: CertifiedShares, known: Known) -> dict[str, Any]:
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
    X: Any = allocation.X.loc[[str(each) in known.facts for each in allocation.X.index]]
    shares = {str(kind): float(share) for kind, share in X.loc[job].items()}
    gangs = np.array([int(known.facts[str(each)].get("scale_factor", 1)) for each in X.index])
    used = {str(kind): float(X[kind].to_numpy() @ gangs) for kind in X.columns}
    gpus = {kind: known.usable(kind) for kind in speeds}
    usable = [kind for kind in speeds if speeds[kind] > 0 and gpus[kind] >= gang]
    full = [
        kind
        for kind in usable
        if kind in used and used[kind] >= gpus[kind] - _NONE * max(1, gpus[kind])
    ]
    time = sum(shares.values())
    fastest = max(usable, key=lambda kind: speeds[kind])
    if time >= 1 - _NONE and shares.get(fastest, 0.0) >= 1 - _NONE:
        limit = "time"
    else:
        limit = "GPUs" if full else "the policy"
    prices = allocation.prices
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


def _of_shares(found: dict[str, Any], fastest: str, allocation: CertifiedShares) -> str:
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


def explain_devices(job: str, decided: CertifiedDevices, known: Known) -> dict[str, Any]:
    """Explain where a job is in a decision about devices.

    Returns
    -------
    dict
        ``status`` (started, extended, moved, preempted or waiting), ``accelerator`` and
        ``devices``, ``before``: who stands before it, the first of the jobs that have devices in
        the order of the decision, and ``before_it``, how many these are; ``waiting``: how many
        wait; and a ``sentence``.
    """
    has = [each for each in decided.running if each in known.facts]
    accelerator, devices = decided.running.get(job, (None, ()))
    before = has[: has.index(job)] if devices else has
    shown, status = before[:_SHOWN], decided.status[job]
    waiting = sum(each == "waiting" for each in decided.status.values())
    found = {
        "job": job,
        "status": status,
        "accelerator": accelerator,
        "devices": list(devices),
        "before": shown,
        "before_it": len(before),
        "waiting": waiting,
        "valid_for_s": decided.valid_for_s,
    }
    more = len(before) - len(shown)
    who = ", ".join(shown) + (f" and {more} more" if more else "")
    first = f"before it in this decision: {who}" if before else "nobody is before it"
    where = f" on {accelerator} {', '.join(map(str, devices))}" if devices else ""
    return {**found, "sentence": f"Job {job} is {status}{where}; {first}."}
