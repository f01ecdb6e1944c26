"""`check_schedule`: whether what a simulation says can have happened, from who ran where when.

No GPU may be idle at the start of a round that a waiting job could use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.cluster import Cluster
from apportion.errors import InputError, written
from apportion.sim.network import BY_SHAPE, get_network
from apportion.sim.workload_tables import present_types
from apportion.testing.stays import TOLERANCE, Stays, fail
from apportion.testing.steps_in_rounds import check_steps_in_rounds, check_steps_under_leases

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from apportion.sim import ElasticWorkload, Run, Workload
    from apportion.sim.network import MemoizedNetwork, NetworkModel
    from apportion.types import Floats, Ints


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


def check_schedule(
    run: Run,
    workload: Workload,
    cluster: Cluster | Mapping[str, int] | str,
    *,
    sharing: bool = False,
    work_conserving: bool = False,
    network: NetworkModel | str | None = None,
) -> None:
    """Check that the schedule of a run can be, and that the run's tables follow from it.

    The check starts from the decisions, ``run.schedule``: which job sat on which devices from when
    to when. Everything else is worked out anew from the workload and the cluster, by no code of
    the simulator.

    - Devices are there, on the machines named, and held by one job at a time, or by two that hold
      exactly the same ones if `sharing`; a job is at one place at a time, with as many devices as
      its scale factor says.
    - No job runs before it arrives or after it is complete; ``start_s`` is the start of its first
      stay, ``completion_s`` the end of its last; each stay but the first is one preemption, in the
      jobs table and in the rounds table; the seconds held on each type are those of the stays.
    - The steps that a job can have done in its stays are its steps: at its speed on each type,
      beside its partner while there is one, split over machines if that counts; less what it loses
      at the start of each stay. Under leases it is at least that, less one checkpoint for each
      lease at most, at the speed that the network model says of the shape of its gang. Steps are
      not checked where gangs slow their neighbours down (the networks of contention and CASSINI,
      and those of one's own that make speeds), nor under mechanisms of one's own.
    - No job is faster than if it had run alone on its fastest type (or in its fastest pair).
    - If `work_conserving`: no job waits at the start of a round while the devices that it needs
      are idle.

    Parameters
    ----------
    run
        What `apportion.simulate` returned, by rounds, by leases or a mechanism of one's own.
    workload, cluster
        What it was given.
    sharing
        Whether two jobs may share devices.
    work_conserving
        Whether no devices may be idle at the start of a round that a waiting job could use.
    network
        The network model of the run, if it is one of your own.

    Raises
    ------
    AssertionError
        For the first thing that cannot be; the message names the jobs, devices and times.
    InputError
        If the run has no schedule, or `work_conserving` is asked of a run by leases, where jobs
        may wait for better devices.
    """
    cluster = present_types(Cluster.of(cluster))
    if run.settings.get("mechanism") == "iterations":
        raise InputError(
            "Jobs that go through iterations share GPUs, of which check_schedule knows nothing; it "
            "is for runs in rounds, by leases and in queues."
        )
    workload = workload.on(cluster)
    under_leases = run.settings.get("mechanism", "leases") == "leases"
    if work_conserving and under_leases:
        raise InputError("Under leases jobs may wait: work_conserving=True is for rounds.")
    stays = check_held(run, workload, cluster, sharing=sharing and workload.pairs is not None)
    _check_jobs_table(stays, run, workload)
    _check_preemptions(stays, run, under_leases=under_leases)
    told = network or run.settings.get("network")
    model = None if told is None else get_network(told, cluster=cluster)
    if model is not None and not _by_shape(model):
        pass  # what a gang does in its stays hangs on its neighbours
    elif "preemption_overhead_seconds" not in run.settings:
        pass  # what a start costs only a mechanism of one's own knows
    elif under_leases and model is not None:
        check_steps_under_leases(stays, run, workload, model)
    else:
        check_steps_in_rounds(stays, run, workload, model)
    if work_conserving:
        check_conservation(stays, run, workload)


def _by_shape(network: MemoizedNetwork) -> bool:
    """Whether what a gang does follows from the shape that it has itself."""
    makes_rates = any(hasattr(network.model, each) for each in ("speeds", "rates"))
    return network.name in BY_SHAPE or not makes_rates


def check_held(
    run: Run, workload: Workload | ElasticWorkload, cluster: Cluster, *, sharing: bool = False
) -> Stays:
    """Check that devices are there, held by one job at a time, and gangs whole; return the stays.

    Parameters are those of `check_schedule`; elastic jobs may have any number of devices.
    """
    stays = Stays.of(run, workload, present_types(cluster))
    _check_places(stays, workload)
    _check_one_place_at_a_time(stays)
    _check_one_job_at_a_time(stays, sharing)
    return stays


def _check_places(stays: Stays, workload: Workload | ElasticWorkload) -> None:
    """Check that gangs are whole, on devices that are there, on the machines named."""
    scale = None if workload.elastic else workload.jobs["scale_factor"].tolist()
    sizes = [stays.cluster.machines(name) for name in stays.cluster.accelerators]
    machine_of = [np.repeat(np.arange(len(size)), size).tolist() for size in sizes]
    for stay, devices in enumerate(stays.devices):
        kind = int(stays.kind[stay])
        gpus = len(devices) if scale is None else scale[stays.job[stay]]
        if len(set(devices)) != gpus or len(devices) != gpus:
            fail(f"{stays.named(stay)} needs {gpus} different devices")
        there = len(machine_of[kind])
        if not all(0 <= device < there for device in devices):
            fail(f"{stays.named(stay)} is on devices that are not there: the type has {there}")
        if {machine_of[kind][device] for device in devices} != set(stays.machines[stay]):
            fail(f"{stays.named(stay)} is not on the machines {list(stays.machines[stay])}")


def _check_one_place_at_a_time(stays: Stays) -> None:
    overlaps = ~stays.first[1:] & (stays.start_s[1:] < stays.end_s[:-1])
    if overlaps.any():
        stay = int(overlaps.argmax())
        fail(f"{stays.named(stay)} and {stays.named(stay + 1)} overlap")


def _check_one_job_at_a_time(stays: Stays, sharing: bool) -> None:
    """Sweep over each device in time."""
    on_device: dict[tuple[int, int], list[int]] = {}
    for stay in np.argsort(stays.start_s, kind="stable").tolist():
        for device in stays.devices[stay]:
            on_device.setdefault((int(stays.kind[stay]), device), []).append(stay)
    for there in on_device.values():
        present: list[int] = []
        for stay in there:
            present = [other for other in present if stays.end_s[other] > stays.start_s[stay]]
            alike = all(set(stays.devices[o]) == set(stays.devices[stay]) for o in present)
            if present and not (sharing and len(present) == 1 and alike):
                both = f"{stays.named(present[0])} and {stays.named(stay)}"
                allowed = "" if sharing else " (jobs may share devices under sharing=True)"
                fail(f"{both} hold a device at the same time{allowed}")
            present.append(stay)


def _check_jobs_table(stays: Stays, run: Run, workload: Workload) -> None:
    """Compare arrivals, starts, completions and seconds held."""
    table = run.jobs.loc[workload.jobs.index]
    arrival_s = workload.jobs["arrival_s"].to_numpy(dtype=float)
    first = np.flatnonzero(stays.first)
    last = np.append(first[1:], len(stays)) - 1
    early = stays.start_s[first] < arrival_s
    if early.any():
        stay = int(first[early.argmax()])
        fail(f"{stays.named(stay)} begins before the job arrives ({arrival_s[early][0]:.10g} s)")
    expected = {"start_s": stays.start_s[first], "completion_s": stays.end_s[last]}
    expected["jct_s"] = stays.end_s[last] - arrival_s
    for kind, name in enumerate(stays.cluster.accelerators):
        expected[f"{name}_s"] = stays.total(stays.seconds * (stays.kind == kind))
    for name, values in expected.items():
        have = table[name].to_numpy(dtype=float)
        off = ~np.isclose(have, values, rtol=TOLERANCE, atol=TOLERANCE)
        if off.any():
            job = int(off.argmax())
            fail(
                f"{name} of job {written(stays.ids[job])} is {have[job]:.10g}, its stays say "
                f"{values[job]:.10g}"
            )


def _check_preemptions(stays: Stays, run: Run, *, under_leases: bool) -> None:
    """Check that each stay but the first of a job follows on one preemption.

    Under leases, where GPUs are counted by machine, others of the same machines are no other place.
    """
    goes_on = stays.goes_on if under_leases else np.zeros(len(stays), dtype=bool)
    count = np.bincount(stays.job[~goes_on], minlength=len(stays.ids)) - 1
    told = run.jobs["preemptions"].to_numpy()
    if not np.array_equal(count, told):
        job = int((count != told).argmax())
        fail(
            f"job {written(stays.ids[job])} has {told[job]} preemptions, its stays say {count[job]}"
        )
    if run.rounds["preemptions"].sum() != count.sum():
        fail(
            f"the rounds count {run.rounds['preemptions'].sum()} preemptions of jobs, the stays "
            f"say {count.sum()}"
        )
