from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from apportion import InputError
from apportion.sim.inference import read_requests

if TYPE_CHECKING:
    from pathlib import Path

TRACE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9305900,396,109
2023-11-16 18:15:48.6805900,10,0
"""
AZURE = {
    "arrival_s": "TIMESTAMP",
    "context_tokens": "ContextTokens",
    "generated_tokens": "GeneratedTokens",
}


def test_llm_requests(tmp_path: Path) -> None:
    file = tmp_path / "llm.csv.gz"
    file.write_bytes(gzip.compress(TRACE.encode()))
    found = read_requests(file, AZURE, service="llm")
    assert found["arrival_s"].tolist() == pytest.approx([0.0, 2.0, 4.25])
    assert found["context_tokens"].tolist() == [374, 10, 396]
    assert set(found["service"]) == {"llm"}
    assert "duration_s" not in found


def test_malformed_traces_name_the_line(tmp_path: Path) -> None:
    file = tmp_path / "bad.csv"
    file.write_text(TRACE.replace(",109", ",x"))
    with pytest.raises(InputError, match=r"line 3: GeneratedTokens is 'x'"):
        read_requests(file, AZURE, service="llm")
    file.write_text(TRACE.replace("ContextTokens", "Context"))
    with pytest.raises(InputError, match="has no column 'ContextTokens'"):
        read_requests(file, AZURE, service="llm")


def test_arrivals_as_date_times(tmp_path: Path) -> None:
    file, columns = tmp_path / "mine.csv", {"arrival_s": "when"}
    file.write_text("when\n2024-02-01 10:00:00\n2024-02-01 11:00:30+01:00\n")
    assert read_requests(file, columns)["arrival_s"].tolist() == [0.0, 30.0]
    for text, words in (
        ("when,n\n,1\n2024-02-01 10:00:00,2\n", "line 2: when is blank; it must be a date-time"),
        ("when\n01/02/2024 10:00\n", "a number >= 0, or a date-time such as 2017"),
    ):
        file.write_text(text)
        with pytest.raises(InputError, match=words):
            read_requests(file, columns)


def test_separators_decimals_and_unix_times(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "requests.csv"
    file.write_text("arrival_s;service;duration_s\n1700000003;a;1.5\n1700000000;a;2\n")
    found = read_requests(file)
    assert found["arrival_s"].tolist() == [0.0, 3.0]
    assert caplog.messages == [
        "The requests arrive at Unix times; arrivals are counted from the first."
    ]
    file.write_text("arrival_s;service;duration_s\n0;a;1,5\n")
    with pytest.raises(InputError, match="'1,5'; it must be a number >= 0, with a point before"):
        read_requests(file)
    file.write_text("arrival_s,service,duration_s\n1700000000000,a,1\n")
    with pytest.raises(InputError, match="milliseconds since 1970"):
        read_requests(file)
