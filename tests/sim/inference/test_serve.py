from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

import apportion as ap
from apportion.sim.inference import DiurnalRate, generate_requests

if TYPE_CHECKING:
    from pathlib import Path


def asked(rows: list[tuple[float, str, float]], **columns: Any) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=["arrival_s", "service", "duration_s"])
    return table.assign(**columns)


def generated(seed: int = 0, rate: float = 0.4, slo: float | None = 3.0) -> pd.DataFrame:
    return generate_requests(
        DiurnalRate(rate), length_s=7200.0, services=3, slo_factor=slo, seed=seed
    )


def test_worked_case() -> None:
    """Four requests of one service: ends 16, 45, 52, 124; protected until 46, 90, 112, 154."""
    rows = [(0.0, "a", 10.0), (40.0, "a", 5.0), (50.0, "a", 2.0), (120.0, "a", 4.0)]
    served = ap.serve(asked(rows, slo_s=[12.0, 5.0, 2.0, 4.0]), 1)
    table = served.requests
    assert table["finish_s"].tolist() == [16.0, 45.0, 52.0, 124.0]
    assert table["cold"].tolist() == [True, False, False, False]
    assert table["slo_met"].tolist() == [False, True, True, True]
    states = served.gpu_states[["state", "from_s", "to_s"]].to_numpy().tolist()
    assert states == [
        ["running", 0.0, 16.0],
        ["protected", 16.0, 40.0],
        ["running", 40.0, 45.0],
        ["protected", 45.0, 50.0],
        ["running", 50.0, 52.0],
        ["protected", 52.0, 112.0],
        ["warm", 112.0, 120.0],
        ["running", 120.0, 124.0],
    ]
    figures = served.summary()
    assert figures["slo_attainment"] == 0.75
    assert figures["computing"] == pytest.approx(27 / 124)
    assert figures["nominal_use"] == 1.0
    assert figures["running_gpu_hours"] == pytest.approx(27 / 3600)


@pytest.mark.parametrize("gpus", [1, 2, 5])
def test_without_cold_starts_and_protection_it_is_a_queue(gpus: int) -> None:
    requests = generated(seed=gpus, rate=0.15 * gpus)
    served = ap.serve(requests, gpus, cold_start_s=0.0, protect=0.0)
    free_s = [0.0] * gpus
    starts = []
    for arrival_s, duration_s in requests[["arrival_s", "duration_s"]].to_numpy():
        starts.append(max(arrival_s, heapq.heappop(free_s)))
        heapq.heappush(free_s, starts[-1] + duration_s)
    np.testing.assert_allclose(served.requests["start_s"], starts, rtol=1e-12)
    assert (served.requests["delay_s"] > 0).any()


def test_the_order_of_rows_says_nothing() -> None:
    requests = generated()
    first = ap.serve(requests, 3)
    again = ap.serve(requests.sample(frac=1.0, random_state=1), 3)
    pd.testing.assert_frame_equal(first.requests, again.requests)
    pd.testing.assert_frame_equal(first.gpu_states, again.gpu_states)


ROWS = [(0.0, "a", 4.0), (1.0, "b", 2.0)]


@pytest.mark.parametrize(
    ("table", "options", "words"),
    [
        (asked(ROWS, slo_s=[9.0, 1.0]), {}, "Request 1 has an SLO of 1 s, but takes 2 s by itself"),
        (asked(ROWS), {"cold_start_s": {"a": 1.0}}, "The cold start of service 'b' is not known"),
        (asked(ROWS, slo=1.0), {}, "Unknown column of the requests 'slo'. Did you mean 'slo_s'"),
        (asked([]), {}, "There are no requests"),
        (asked(ROWS), {"gpus": 0}, "gpus is 0; it must be a whole number >= 1"),
        (asked(ROWS), {"cold_start_s": -1.0}, "A cold start is -1.0"),
        (asked(ROWS), {"protect": -1.0}, "protect is -1.0"),
        (asked(ROWS), {"slo_factor": 0.9}, "slo_factor is 0.9; it must be a number >= 1"),
        (asked(ROWS, slo_s=9.0), {"slo_factor": 2.0}, "have a column 'slo_s' already"),
        (asked(ROWS), {"gpus_per_node": 0}, "gpus_per_node is 0"),
        ([1, 2], {}, "they must be a table"),
    ],
)
def test_what_cannot_be_served(table: object, options: dict[str, object], words: str) -> None:
    with pytest.raises(ap.InputError) as caught:
        ap.serve(table, **{"gpus": 2, **options})  # type: ignore[arg-type]
    assert words in str(caught.value)


def test_malformed_files(tmp_path: Path) -> None:
    file = tmp_path / "r.csv"
    for text, words in (
        ("arrival_s,service,duration_s,who\n0,a,1,me\n", "'who'. Valid: arrival_s, service"),
        ("arrival_s,service,duration_s\n0,a,1\n-2,a,1\n", "line 3: arrival_s is '-2'"),
        ("arrival_s,service,duration_s\n0,a,soon\n", "line 2: duration_s is 'soon'"),
        ("arrival_s,service,duration_s\n", "has no rows"),
        ("request,arrival_s,service,duration_s,slo_s\nr7,0,a,4,2\n", "'r7' has an SLO of 2 s"),
    ):
        file.write_text(text)
        with pytest.raises(ap.InputError) as caught:
            ap.serve(file, 2)
        assert words in str(caught.value)
