from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from tests.sim.links.drawn import drawn, play

import apportion as ap
from apportion.errors import InputError, SolveError
from apportion.mechanism.gates import GATES, HOLD, START, AdaDual, AllOf, AtMost, TimeShift
from apportion.sim.links import (
    ETHERNET_10G,
    FairSharing,
    Iteration,
    LinkEngine,
    Send,
    SharedCost,
    Timeline,
    all_reduced,
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
    engine = LinkEngine(16, 8, sharing, GATES.of(gate), timeline)
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
    for gate in ("ada_dual", "ada_dual_as_written"):
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
        play(LinkEngine(*case[:4], timeline), case)
        for _, rows in timeline.tasks().sort_values("start_s").groupby("gpu"):
            assert (rows["start_s"].to_numpy()[1:] >= rows["end_s"].to_numpy()[:-1] - 1e-9).all()


@dataclass(frozen=True)
class NeverGate:
    name: str = "never"

    def decide(self, now_s: float, flow: Any, links: Any) -> float:
        return HOLD


@pytest.mark.parametrize("until_s", [np.inf, 100.0])
def test_a_standstill_is_explained(until_s: float) -> None:
    engine = LinkEngine(4, 2, LAW, NeverGate())
    for number in range(2):
        pair = [2 * number, 2 * number + 1]
        engine.add(number, all_reduced(1.0, 1.0, 5.0), 3, pair, [0, 1], (1, 0), 0.0)
    with pytest.raises(SolveError, match="at 2 s: job 0 waits for the gate 'never' to let"):
        engine.run(0.0, until_s, to_completion=True)


def test_bad_input_is_named() -> None:
    engine = LinkEngine(4, 2, LAW, GATES.of("always"))
    with pytest.raises(InputError, match="Job 7 sends over link 2, which is not there"):
        engine.add(7, all_reduced(1, 1, 1), 1, [0], [2], (1, 0), 0.0)
    with pytest.raises(InputError, match="slower names link 9"):
        LinkEngine(4, 2, SharedCost(slower=((9, 2.0),)), GATES.of("always"))
    with pytest.raises(InputError, match="Link 1 has no capacity"):
        LinkEngine(4, 2, FairSharing((1.0,)), GATES.of("always"))
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
