"""Messages drawn at random: jobs that come, go, change and are observed, and GPUs that change."""

from __future__ import annotations

from typing import Any

import numpy as np

TYPES = ("v100", "p100", "k80")
CLUSTER = "v100=6,p100=6,k80=8"


def drawn_messages(
    seed: int, count: int, *, asks: tuple[str, ...] = ("decide",)
) -> list[dict[str, Any]]:
    """Return valid messages in order, each with an id and a time."""
    rng = np.random.default_rng(seed)
    there: list[str] = []
    at_s, told = 0.0, []
    for number in range(count):
        at_s += float(rng.integers(0, 100))
        kinds = ["add", "add", "update", "remove", "observe", "cluster", *asks]
        kind = str(rng.choice(kinds)) if len(there) > 2 else "add"
        message: dict[str, Any] = {"op": kind, "id": f"m{seed}-{number}", "at_s": at_s}
        if kind == "add":
            new = [f"j{number}-{k}" for k in range(int(rng.integers(1, 4)))]
            message["jobs"] = {job: drawn_job(rng) for job in new}
            there += new
        elif kind == "remove":
            gone = str(rng.choice(there))
            there.remove(gone)
            message["jobs"] = [gone]
        elif kind == "update":
            told_anew = {"steps_remaining": float(rng.integers(1, 1000))}
            message["jobs"] = {str(rng.choice(there)): told_anew}
        elif kind == "observe":
            message |= {"job": str(rng.choice(there)), "accelerator": str(rng.choice(TYPES))}
            message |= {"steps": float(rng.integers(1, 1000)), "seconds": 60.0}
        elif kind == "cluster":
            message["gpus"] = {name: int(rng.integers(4, 10)) for name in TYPES}
        elif kind == "explain":
            message["job"] = str(rng.choice(there))
        told.append(message)
    return told


def drawn_job(rng: np.random.Generator) -> dict[str, Any]:
    """Return what is told of a job: speeds from a few rows, so that some are alike."""
    rows = np.random.default_rng(7).uniform(0.5, 4.0, size=(6, 3)).round(2)
    speeds = rows[rng.integers(6)].tolist()
    steps = float(rng.integers(1000, 10**6))
    return {
        "throughputs": dict(zip(TYPES, speeds, strict=True)),
        "scale_factor": int(rng.choice([1, 1, 2, 4])),
        "weight": float(rng.choice([1.0, 2.0])),
        "total_steps": 2 * steps,
        "steps_remaining": steps,
    }
