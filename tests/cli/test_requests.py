from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import apportion as ap
from apportion.cli import main
from apportion.sim.inference import checked_requests


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def generated(*words: str, hours: float = 2.0) -> pd.DataFrame:
    assert main(["requests", "generate", "r.csv", "--hours", str(hours), *words]) == 0
    return pd.read_csv("r.csv", index_col="request")


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert main(list(words)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err


def test_requests_are_written_and_the_same_seed_writes_the_same(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["--slo-factor", "3", "--services", "2", "--durations", "constant", "--seed", "3"]
    made = generated(*words)
    first = Path("r.csv").read_bytes()
    assert f"{len(made):,} requests of 2 services: r.csv" in capsys.readouterr().out
    generated(*words)
    assert Path("r.csv").read_bytes() == first
    checked_requests(made)
    assert (made["duration_s"] == 5.0).all()
    assert (made["slo_s"] == 15.0).all()
    assert made["arrival_s"].between(0, 7200).all()


def test_a_measured_rate_takes_the_place_of_day_and_night() -> None:
    Path("rate.csv").write_text("t_s,rate_rps\n0,0\n600,2\n")
    made = generated("--rate-file", "rate.csv", "--noise", "0", hours=1.0)
    assert ((made["arrival_s"] % 1200) >= 600).all()
    assert 3000 < len(made) < 4200  # Poisson of mean 3600
    scaled = generated("--rate-file", "rate.csv", "--noise", "0", "--rate", "0.1", hours=1.0)
    assert 250 < len(scaled) < 480  # of mean 360


def test_misspelt_words_and_numbers_out_of_range(capsys: pytest.CaptureFixture[str]) -> None:
    assert "Did you mean 'generate'?" in refused(capsys, "requests", "generat", "r.csv")
    words = ("requests", "generate", "r.csv")
    assert "Did you mean '--slo-factor'?" in refused(capsys, *words, "--slo-facto", "2")
    assert "slo_factor is 0.5" in refused(capsys, *words, "--slo-factor", "0.5")
    assert "'0' must be a whole number >= 1" in refused(capsys, *words, "--services", "0")
    assert not Path("r.csv").exists()


def test_requests_are_served(capsys: pytest.CaptureFixture[str]) -> None:
    made = generated("--slo-factor", "3", "--rate", "0.2")
    capsys.readouterr()
    assert main(["serve", "r.csv", "--gpus", "4", "--out", "tables"]) == 0
    lines = capsys.readouterr().out.splitlines()
    served = ap.serve(made, 4)
    assert lines[0] == f"r.csv on 4 GPUs, {served.length_s / 3600:.2f} h"
    (attainment,) = (line for line in lines if line.startswith("SLO attainment"))
    assert attainment.split()[2:] == [f"{100 * served.slo_attainment:.2f}", "%"]
    requests, states = (pd.read_csv(f"tables/{name}.csv") for name in ("requests", "gpu_states"))
    np.testing.assert_allclose(requests["finish_s"], served.requests["finish_s"], rtol=1e-15)
    assert requests["request"].tolist() == list(made.index)
    assert Path("tables/day.png").read_bytes()[:4] == b"\x89PNG"
    assert list(states.columns) == ["gpu", "state", "service", "from_s", "to_s"]
    assert len(states) == len(served.gpu_states)


def test_requests_that_cannot_be_served(capsys: pytest.CaptureFixture[str]) -> None:
    generated("--slo-factor", "3")
    serve = ("serve", "r.csv")
    assert "'0' must be a whole number >= 1" in refused(capsys, *serve, "--gpus", "0")
    assert "'slo_s' already" in refused(capsys, *serve, "--gpus", "1", "--slo-factor", "2")
    Path("r.csv").write_text("arrival_s,service,duration_s\n0,a,1\n-2,a,1\n")
    assert "line 3: arrival_s is '-2'" in refused(capsys, *serve, "--gpus", "1")


@pytest.mark.thorough
def test_the_fewest_gpus(capsys: pytest.CaptureFixture[str]) -> None:
    made = generated("--slo-factor", "4", "--rate", "0.1")
    capsys.readouterr()
    assert main(["serve", "r.csv", "--fewest", "--attainment", "0.9"]) == 0
    found = ap.fewest_gpus(made, 0.9)
    said = capsys.readouterr().out
    assert f"Fewest GPUs for 90 %: {found.gpus}. At least {found.least} by the load" in said
    assert f"r.csv on {found.gpus} GPUs" in said
    serve = ("serve", "r.csv")
    assert "leave one of them out" in refused(capsys, *serve, "--gpus", "2", "--fewest")
    assert "--attainment is for --fewest" in refused(
        capsys, *serve, "--gpus", "2", "--attainment", "1"
    )
    assert "Say how many GPUs serve" in refused(capsys, *serve)
    assert "attainment is 1.5" in refused(capsys, *serve, "--fewest", "--attainment", "1.5")
    assert "Did you mean '--gpus'" in refused(capsys, *serve, "--gpu", "2")
