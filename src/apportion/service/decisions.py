"""What is answered: shares of time, or devices and what has changed about them; all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
