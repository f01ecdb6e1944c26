from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from tests.sim.contention.drawn import drawn, play

import apportion as ap
from apportion.errors import InputError, SolveError
from apportion.mechanism.gates import GATES, HOLD, START, AdaDual, AllOf, AtMost, TimeShift
from apportion.sim.contention import (
    ETHERNET_10G,
    FairSharing,
    Iteration,
    Phase,
    PlainEngine,
    Send,
    SharedCost,
    Timeline,
    all_reduced,
    in_phases,
    overlapped,
)
from apportion.sim.network import model_profiles
from apportion.sim.network.models.trained import TABLE_III

pytestmark = pytest.mark.usefixtures("free_starts")

LAW = SharedCost(1.0, 0.5, 0.0)


def ends(
    jobs: list[tuple[Iteration, int, list[int], list[int]]],
    gate: Any = "always",
    sharing: Any = LAW,
    ready_s: list[float] | None = None,
    timeline: Timeline | None = None,
    turns: list[tuple[int, int]] | None = None,
) -> list[float]:
    """When jobs are done on GPUs and links of their own choice."""
    engine = PlainEngine(16, 8, sharing, GATES.of(gate), timeline)
    for number, job in enumerate(jobs):
        turn = turns[number] if turns else (1, 0)
        engine.add(number, *job, turn, ready_s[number] if ready_s else 0.0)
    _, finished = engine.run(0.0, np.inf, to_completion=False)
    return [when_s for _, when_s in sorted(finished)]


def test_one_job_alone_in_closed_form() -> None:
    row = TABLE_III["VGG-16"]
    size, (forward_s, backward_s) = row.megabytes * 1e6, row.passes_s()
    iteration = all_reduced(forward_s, backward_s, size, startup_s=ETHERNET_10G.startup_s)
    (done_s,) = ends([(iteration, 300, [0, 1, 4, 5], [0, 1])], sharing=ETHERNET_10G)
    each_s = forward_s + backward_s + 6.69e-4 + 8.53e-10 * size
    assert done_s == pytest.approx(300 * each_s, rel=1e-9)
    assert (forward_s + backward_s) / each_s == pytest.approx(0.166, abs=5e-4)
    (local_s,) = ends([(iteration, 300, [0, 1], [])], sharing=ETHERNET_10G)
    assert local_s == pytest.approx(300 * (forward_s + backward_s), rel=1e-9)


@pytest.mark.parametrize(("transfers", "expected"), [(1, 0.085969), (2, 0.194769), (4, 0.412369)])
def test_equation_5_at_100_megabytes(transfers: int, expected: float) -> None:
    iteration = Iteration((), (Send(1e8, 0, startup_s=6.69e-4),)).checked("one transfer")
    jobs = [(iteration, 1, [k, 8 + k], [0, 1]) for k in range(transfers)]
    assert ends(jobs, sharing=ETHERNET_10G) == pytest.approx([expected] * transfers, rel=1e-5)


@pytest.mark.parametrize("counted_over", ["task", "cluster"])
def test_whose_links_are_counted(counted_over: str) -> None:
    sharing = SharedCost(1.0, 0.5, 0.0, counted_over)
    one = Iteration((), (Send(6.0, 0),)).checked("one transfer")
    jobs = [(one, 1, [0, 1], [0, 1]), (one, 1, [2, 3], [0, 1]), (one, 1, [4, 5], [4, 5])]
    alone_s = 6.0 if counted_over == "task" else 6 * 2.5
    assert ends(jobs, sharing=sharing) == pytest.approx([15.0, 15.0, alone_s])


@pytest.mark.parametrize(
    ("first", "late_s", "expected"),
    [
        (1.0, 0.0, (2.5, 7.5)),  # both at once: 4 and 5 in the means below
        (2.0, 0.0, (5.0, 9.0)),
        (3.0, 0.0, (7.5, 10.5)),
        (1.0, 1.0, (1.0, 7.0)),
        (2.0, 2.0, (2.0, 8.0)),
        (3.0, 3.0, (3.0, 9.0)),
    ],
)
def test_two_transfers_on_one_link(
    first: float, late_s: float, expected: tuple[float, float]
) -> None:
    sizes, ready_s = (first, 6.0), [0.0, late_s]
    jobs = [
        (Iteration((), (Send(size, 0),)).checked("one transfer"), 1, [k, 8 + k], [0, 1])
        for k, size in enumerate(sizes)
    ]
    done_s = ends(jobs, ready_s=ready_s)
    assert done_s == pytest.approx(list(expected))


def test_theorems_1_and_2() -> None:
    """Means of the two ends at the ends of the interval, b = 1 and eta = .5, beside 6 bytes."""

    def mean(sizes: tuple[float, float], ready_s: tuple[float, float]) -> float:
        jobs = [
            (Iteration((), (Send(size, 0),)).checked("one transfer"), 1, [k, 8 + k], [0, 1])
            for k, size in enumerate(sizes)
        ]
        return float(np.mean(ends(jobs, ready_s=list(ready_s))))

    for size, at_once, after, last in [(1, 5, 4, 6.5), (2, 7, 5, 7), (3, 9, 6, 7.5)]:
        assert mean((size, 6.0), (0.0, 0.0)) == pytest.approx(at_once)
        assert mean((size, 6.0), (0.0, size)) == pytest.approx(after)
        assert mean((size, 6.0), (6.0, 0.0)) == pytest.approx(last)
    assert mean((1.0, 6.0), (3.0, 0.0)) == pytest.approx(6.5)


@pytest.mark.parametrize(
    ("law", "size", "other", "starts"),
    [
        (SharedCost(1.0, 0.25, 0.0), 2.0, 5.0, False),  # a tie waits
        (SharedCost(1.0, 0.25, 0.0), 1.99, 5.0, True),
        (SharedCost(0.856, 0.235, 0.0), 99.2, 251.8, False),
        (SharedCost(0.856, 0.235, 0.0), 99.2, 252.9, True),
    ],
)
def test_the_threshold_of_ada_dual(
    law: SharedCost, size: float, other: float, starts: bool
) -> None:
    timeline = Timeline()
    running = Iteration((), (Send(other, 0),)).checked("one transfer")
    joining = Iteration((), (Send(size, 0),)).checked("one transfer")
    jobs = [(running, 1, [0, 1], [0, 1]), (joining, 1, [2, 3], [0, 1])]
    for gate in ("ada_dual", "ada_dual_as_written", "rollout"):
        timeline = Timeline()
        ends(jobs, gate, law, timeline=timeline)
        assert (timeline.transfers()["sharing"].max() == 2) == starts


def test_ada_dual_as_written_looks_at_the_first_server_only() -> None:
    long, short = (Iteration((), (Send(size, 0),)).checked("one") for size in (9.0, 1.5))
    new = Iteration((), (Send(2.0, 0),)).checked("one")
    law = SharedCost(1.0, 0.0, 0.0)
    for first, second, starts in ((long, short, True), (short, long, False)):
        jobs = [(first, 1, [0, 1], [0, 4]), (second, 1, [2, 3], [1, 5]), (new, 1, [6, 7], [0, 1])]
        begun = {}
        for conflicts in ("first", "all"):
            timeline = Timeline()
            ends(jobs, AdaDual(conflicts), law, timeline=timeline)
            rows = timeline.transfers()
            begun[conflicts] = float(rows[rows["job"] == 2]["start_s"].min())
        assert (begun["first"] == 0) == starts
        assert begun["all"] > 0


def test_the_order_by_remaining_service() -> None:
    gpus, iterations, ms = (1, 2, 4, 8), (900, 400, 250, 100), (400, 387.5, 316, 348)
    service = {
        f"J{k + 1}": n * count * each
        for k, (n, count, each) in enumerate(zip(gpus, iterations, ms, strict=True))
    }
    assert list(service.values()) == [360_000, 310_000, 316_000, 278_400]
    assert sorted(service, key=service.__getitem__) == ["J4", "J2", "J3", "J1"]
    compute = Iteration((1.0,)).checked("compute")
    done_s = ends(
        [(compute, 1, [0], [])] * 4, turns=[(int(value), 0) for value in service.values()]
    )
    assert np.argsort(done_s).tolist() == [3, 1, 2, 0]


@dataclass
class Looks:
    """Looks at everything, several times, and then answers as another gate does."""

    gate: Any
    name: str = "looks"
    seen: int = field(default=0)

    def decide(self, now_s: float, flow: Any, links: Any) -> float:
        for _ in range(3):
            for link in flow.links:
                self.seen += len(links.on(link))
            links.rates([*links.flows, flow])
            _ = links.waiting
            with pytest.raises(AttributeError):
                flow.left = 0.0
        return float(self.gate.decide(now_s, flow, links))


@pytest.mark.parametrize("seed", range(10))
def test_asking_a_gate_changes_nothing(seed: int) -> None:
    case = drawn(seed)
    looks = Looks(case.gate)
    engines = [PlainEngine(*case[:3], gate) for gate in (case.gate, looks)]
    assert play(engines[0], case) == play(engines[1], case)
    first, second = (engine.so_far(np.arange(len(case.jobs))) for engine in engines)
    assert first.sent.tolist() == second.sent.tolist()


def test_a_shift_lets_transfers_start_at_its_own_times_only() -> None:
    iteration = all_reduced(0.1, 0.1, 0.3)
    jobs = [(iteration, 4, [0, 1], [0, 1]), (iteration, 4, [2, 3], [0, 1])]
    timeline = Timeline()
    gate = AllOf((TimeShift({0: (0.25, 1.0), 1: (0.75, 1.0)}), AtMost(1)))
    ends(jobs, gate, timeline=timeline)
    rows = timeline.transfers()
    assert (rows["sharing"] == 1).all()
    for job, shift_s in ((0, 0.25), (1, 0.75)):
        start_s = rows[rows["job"] == job]["start_s"].to_numpy()
        np.testing.assert_allclose(start_s, shift_s + np.arange(4), atol=1e-9)
    assert max(START, 3.0) == 3.0
    assert max(START, 3.0, HOLD) == HOLD


def test_phases_share_a_link_by_what_they_can_use() -> None:
    """Max-min: 1 of 10 bytes/s goes to who can use no more, the others have 4.5 each."""
    capacity = FairSharing((10.0,) * 8)
    few, many = (in_phases([Phase(0, 9.0, most)]) for most in (1.0, math.inf))
    jobs = [(few, 1, [0, 1], [0, 1]), (many, 1, [2, 3], [0, 1]), (many, 1, [4, 5], [1, 2])]
    assert ends(jobs, sharing=capacity) == pytest.approx([9.0, 2.0, 2.0])
    # Compute and send at once, then send alone, then compute: 2 + 1.5 + 0.5.
    phased = in_phases([Phase(2.0, 6.0, 6.0), Phase(0.0, 9.0, 6.0), Phase(0.5)])
    assert ends([(phased, 3, [0, 1], [0, 1])], sharing=capacity) == pytest.approx([12.0])


def test_overlapped_layers_by_the_recursion_of_two_machines() -> None:
    profile = model_profiles()["AlexNet"]
    iteration = overlapped(profile, bucket_bytes=1e6)
    b = 8.53e-10
    sent_s = computed_s = sum(layer.forward_s for layer in profile.layers)
    part = 0.0
    for layer in reversed(profile.layers):
        computed_s += layer.input_gradient_s + layer.weight_gradient_s
        part += layer.weight_gradient.size_bytes
        if part >= 1e6:
            sent_s, part = max(sent_s, computed_s) + b * part, 0.0
    sent_s = max(sent_s, computed_s) + b * part
    (done_s,) = ends([(iteration, 5, [0, 1], [0, 1])], sharing=ETHERNET_10G)
    assert done_s == pytest.approx(5 * max(sent_s, computed_s), rel=1e-9)
    size = profile.all_reduce_bytes
    plain_s = profile.compute_s + b * size
    assert size * b < max(sent_s, computed_s) < plain_s


def test_gpus_take_one_task_at_a_time() -> None:
    for seed in range(15):
        case = drawn(seed)
        timeline = Timeline()
        play(PlainEngine(*case[:4], timeline), case)
        for _, rows in timeline.tasks().sort_values("start_s").groupby("gpu"):
            assert (rows["start_s"].to_numpy()[1:] >= rows["end_s"].to_numpy()[:-1] - 1e-9).all()


@dataclass(frozen=True)
class NeverGate:
    name: str = "never"

    def decide(self, now_s: float, flow: Any, links: Any) -> float:
        return HOLD


@pytest.mark.parametrize("until_s", [np.inf, 100.0])
def test_a_standstill_is_explained(until_s: float) -> None:
    engine = PlainEngine(4, 2, LAW, NeverGate())
    for number in range(2):
        pair = [2 * number, 2 * number + 1]
        engine.add(number, all_reduced(1.0, 1.0, 5.0), 3, pair, [0, 1], (1, 0), 0.0)
    with pytest.raises(SolveError, match="at 2 s: job 0 waits for the gate 'never' to let"):
        engine.run(0.0, until_s, to_completion=True)


def test_bad_input_is_named() -> None:
    engine = PlainEngine(4, 2, LAW, GATES.of("always"))
    with pytest.raises(InputError, match="Job 7 sends over link 2, which is not there"):
        engine.add(7, all_reduced(1, 1, 1), 1, [0], [2], (1, 0), 0.0)
    with pytest.raises(InputError, match="slower names link 9"):
        PlainEngine(4, 2, SharedCost(slower=((9, 2.0),)), GATES.of("always"))
    with pytest.raises(InputError, match="Link 1 has no capacity"):
        PlainEngine(4, 2, FairSharing((1.0,)), GATES.of("always"))
    with pytest.raises(InputError, match="Bytes/s of link 1"):
        FairSharing((1.0, 0.0))
    with pytest.raises(InputError, match="Bytes that an all-reduced iteration sends"):
        all_reduced(1, 1, -5)
    with pytest.raises(InputError, match="takes no time"):
        all_reduced(0, 0, 0)
    with pytest.raises(InputError, match="waits for transfer 0, and that for it"):
        Iteration((1.0,), (Send(1.0, 1),), (1,)).checked("job 3")
    with pytest.raises(InputError, match="gate 'ada_duel'"):
        GATES.of("ada_duel")
    with pytest.raises(InputError, match="period of job 3"):
        TimeShift({3: (0.0, 0.0)})
    with pytest.raises(InputError, match="shift of job 3 is 2"):
        TimeShift({3: (2.0, 1.0)})
    with pytest.raises(InputError, match="transfers is 0"):
        AtMost(0)


def workload(gpus: int, steps: float = 40.0, model: str = "VGG-16") -> ap.Workload:
    import pandas as pd

    index = pd.MultiIndex.from_tuples([(model, gpus)], names=["job_type", "scale_factor"])
    speed = 1 / sum(TABLE_III[model].passes_s())
    jobs = pd.DataFrame({"job_type": [model], "scale_factor": [gpus], "total_steps": [steps]})
    return ap.Workload("one job", jobs, pd.DataFrame({"v100": [speed]}, index))


CLUSTER = ap.Cluster({"v100": 8}, gpus_per_machine=4)


def test_ada_srsf_by_its_name() -> None:
    run = ap.simulate("ada_srsf", workload(8), CLUSTER, timeline=True)
    row = TABLE_III["VGG-16"]
    each_s = sum(row.passes_s()) + 6.69e-4 + 8.53e-10 * row.megabytes * 1e6
    assert run.jobs["jct_s"].item() == pytest.approx(40 * each_s, rel=1e-9)
    assert run.jobs["sent_bytes"].item() == pytest.approx(40 * row.megabytes * 1e6)
    assert run.summary()["utilization"] == pytest.approx(sum(row.passes_s()) / each_s)
    assert len(run.tables["tasks"]) == 40 * 8 * 2
    assert len(run.tables["transfers"]) == 40
    each, times = run.tables["iterations"], run.tables["iteration_times"]
    assert each["iteration_s"].to_numpy() == pytest.approx(40 * [each_s], rel=1e-9)
    assert times.loc["VGG-16", ["iterations", "mean_s", "p99_s"]].to_numpy() == pytest.approx(
        [40, each_s, each_s], rel=1e-9
    )


def test_what_simulate_refuses() -> None:
    with pytest.raises(InputError, match=r"Job 0 \('VGG-16'\) takes 4.421 GB of each GPU"):
        ap.simulate("ada_srsf", workload(1), CLUSTER, gpu_memory_gb=4.0)
    base = workload(1)
    throughputs = base.throughputs.rename({"VGG-16": "A3C"})
    other = ap.Workload("x", base.jobs.assign(job_type="A3C"), throughputs)
    with pytest.raises(InputError, match="Nobody knows what jobs of type 'A3C' send"):
        ap.simulate("ada_srsf", other, CLUSTER)
    with pytest.raises(InputError, match="s_per_byte is -1"):
        ap.simulate("ada_srsf", workload(1), CLUSTER, s_per_byte=-1.0)
    with pytest.raises(InputError, match="works by iterations"):
        ap.simulate("ada_srsf", workload(1), CLUSTER, mechanism="rounds")
    with pytest.raises(InputError, match="scheduler 'ada_srfs'"):
        ap.simulate("ada_srfs", workload(1), CLUSTER)
