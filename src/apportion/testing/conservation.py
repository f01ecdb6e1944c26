"""Whether GPUs are idle at the start of a round that a waiting job could use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.errors import written
from apportion.testing.stays import fail

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from apportion.sim import Run, Workload
    from apportion.testing.stays import Stays

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]

__all__ = ["check_conservation"]


def check_conservation(stays: Stays, run: Run, workload: Workload) -> None:
    """Check that no job waits at the start of a round while GPUs that it could use are idle."""
    now_s = run.rounds["start_s"].to_numpy(dtype=float)
    idle = stays.cluster.counts[None, :] - _held(stays, now_s)
    speed = workload.throughput_of(stays.cluster).to_numpy(dtype=float)
    scale = workload.jobs["scale_factor"].to_numpy()
    arrival_s = workload.jobs["arrival_s"].to_numpy(dtype=float)
    last = np.append(np.flatnonzero(stays.first)[1:], len(stays)) - 1
    completion_s = stays.end_s[last]
    kinds, of_kind = np.unique(np.column_stack([scale, speed > 0]), axis=0, return_inverse=True)
    for kind, (gpus, *runs_on) in enumerate(kinds.tolist()):
        jobs, mine = of_kind == kind, of_kind[stays.job] == kind
        waiting = _begun(arrival_s[jobs], now_s) - _begun(completion_s[jobs], now_s)
        waiting -= _begun(stays.start_s[mine], now_s) - _begun(stays.end_s[mine], now_s)
        wasted = (waiting[:, None] > 0) & (idle >= gpus) & np.array(runs_on, dtype=bool)
        if wasted.any():
            number, column = map(int, np.argwhere(wasted)[0])
            held = np.isin(np.arange(len(jobs)), stays.job[_covers(stays, now_s[number])])
            there = (arrival_s <= now_s[number]) & (completion_s > now_s[number])
            job = int(np.flatnonzero(jobs & there & ~held)[0])
            fail(
                f"at {now_s[number]:.10g} s job {written(stays.ids[job])} waits for {gpus} GPUs "
                f"while {idle[number, column]} of type {stays.cluster.accelerators[column]!r} are "
                f"idle"
            )


def _held(stays: Stays, now_s: Floats) -> Ints:
    """Count the GPUs of each type that are held at some times, shape (times, types)."""
    spans: list[tuple[int, int, float, float]] = []
    for (kind, devices), there in stays.by_place().items():
        # Devices that two jobs share are held once: join stays that overlap.
        begin_s = end_s = -np.inf
        for stay in there:
            if stays.start_s[stay] > end_s:
                spans.append((kind, len(devices), begin_s, end_s))
                begin_s = stays.start_s[stay]
            end_s = max(end_s, stays.end_s[stay])
        spans.append((kind, len(devices), begin_s, end_s))
    held = np.zeros((now_s.size, len(stays.cluster.accelerators)), dtype=np.intp)
    kinds, gpus, starts_s, ends_s = map(np.array, zip(*spans, strict=True))
    for kind in range(held.shape[1]):
        mine = (kinds == kind) & np.isfinite(starts_s)
        held[:, kind] = _begun(starts_s[mine], now_s, gpus[mine])
        held[:, kind] -= _begun(ends_s[mine], now_s, gpus[mine])
    return held


def _begun(times_s: Floats, now_s: Floats, count: Ints | None = None) -> Ints:
    """Sum what has come by some times, shape (times,)."""
    order = np.argsort(times_s, kind="stable")
    one = np.ones(len(order), dtype=np.intp) if count is None else count
    total = np.concatenate([[0], one[order].cumsum()])
    return np.asarray(total[np.searchsorted(times_s[order], now_s, side="right")], dtype=np.intp)


def _covers(stays: Stays, now_s: float) -> NDArray[np.bool_]:
    """Tell which stays hold their devices at a time."""
    return (stays.start_s <= now_s) & (stays.end_s > now_s)
