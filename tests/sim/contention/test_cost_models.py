from __future__ import annotations

import pandas as pd
import pytest

import apportion as ap
from apportion.errors import InputError
from apportion.sim.network import all_reduce_cost
from apportion.sim.network.models.trained import TABLE_III, V100_FLOPS

A, B, G = 1e-5, 2e-10, 5e-11


@pytest.mark.parametrize(
    ("algorithm", "latency_s", "s_per_byte"),
    [
        ("binary_tree", 4 * A, 4 * B + 2 * G),
        ("recursive_doubling", 2 * A, 2 * B + 2 * G),
        ("halving_doubling", 4 * A, 1.5 * B + 0.75 * G),
        ("ring", 6 * A, 1.5 * B + 0.75 * G),
    ],
)
def test_table_i_at_four_nodes(algorithm: str, latency_s: float, s_per_byte: float) -> None:
    cost = all_reduce_cost(algorithm, 4, alpha_s=A, beta_s=B, gamma_s=G)
    assert cost == pytest.approx((latency_s, s_per_byte))
    assert cost.seconds(1e8) == pytest.approx(latency_s + 1e8 * s_per_byte)
    assert all_reduce_cost(algorithm, 1, alpha_s=A, beta_s=B, gamma_s=G) == pytest.approx((0, 0))


def test_passes_grow_with_the_batch_and_shrink_with_flops() -> None:
    row = TABLE_III["ResNet-50"]
    assert row.passes_s() == pytest.approx((0.025, 0.0374))
    assert row.passes_s(32, V100_FLOPS / 2) == pytest.approx((0.1, 0.1496))
    with pytest.raises(InputError, match="batch is 0"):
        row.passes_s(0)


@pytest.mark.parametrize(
    ("algorithm", "messages", "sent", "added"),
    [
        ("ring", 6, 1.5, 0.75),
        ("halving_doubling", 4, 1.5, 0.75),
        ("recursive_doubling", 2, 2.0, 2.0),
        ("binary_tree", 4, 4.0, 2.0),
    ],
)
def test_a_gang_on_four_servers_sends_by_table_i(
    algorithm: str, messages: int, sent: float, added: float
) -> None:
    """VGG-16 on servers of one GPU, where a ring of two of them has a and b as given."""
    a, b, gamma = 2e-3, 8e-10, 1e-10
    jobs = pd.DataFrame({"job_type": "VGG-16", "scale_factor": 4, "total_steps": [10.0]})
    speed = pd.DataFrame({"v100": [1 / (0.0358 + 0.0537)]}, index=["VGG-16"])
    speed.index = pd.MultiIndex.from_tuples([("VGG-16", 4)])
    run = ap.simulate(
        "ada_srsf",
        ap.Workload("one gang", jobs, speed),
        ap.Cluster({"v100": 4}, gpus_per_machine=1),
        mechanism=ap.Iterations(
            startup_s=a, s_per_byte=b, all_reduce=algorithm, add_s_per_byte=gamma
        ),
    )
    alpha, beta = a / 2, b - gamma / 2
    factor = (sent * beta + added * gamma) / b
    each_s = 0.0895 + messages * alpha + b * factor * 526.4e6
    assert run.jobs.jct_s.tolist() == pytest.approx([10 * each_s])
    assert run.jobs.sent_bytes.tolist() == pytest.approx([10 * factor * 526.4e6])


def test_contended_jobs_of_another_batch_compute_longer() -> None:
    plain = ap.generate_contended_workload(scale=0.01)
    larger = ap.generate_contended_workload(
        scale=0.01, batch={"VGG-16": 32, "LSTM-PTB": 64}, peak_flops=V100_FLOPS / 3
    )
    assert larger.jobs.equals(plain.jobs)
    ratio = plain.throughputs["v100"] / larger.throughputs["v100"]
    assert ratio["VGG-16"].tolist() == pytest.approx([6.0] * 6)
    assert ratio.drop("VGG-16", level=0).tolist() == pytest.approx([3.0] * 18)
    with pytest.raises(InputError, match="model in batch 'VGG16'"):
        ap.generate_contended_workload(batch={"VGG16": 32})
