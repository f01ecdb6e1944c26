from __future__ import annotations

import pandas as pd
import pytest

import apportion as ap


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
