from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pytest
from tests.in_process import run_benchmark

from apportion.errors import InputError
from benchmarks.dally.schedulers import CLAIMS
from benchmarks.experiment import claimed
from benchmarks.papers.claims import Figure, claims_of
from benchmarks.reporting import kept, tables_in

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[2]


def run(name: str, out: Path, *options: str) -> str:
    return run_benchmark(name, "--quick", *options, "--out", str(out), folder=ROOT).out


def test_printed_tables_are_kept_as_csv_and_pictures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (
        "before\n| who | hours | |\n|---|---|---|\n| a, b | 1,200.5 [1, 2] | x |\n|  | 2.5 | |\n\n"
    )
    with kept(tmp_path, "some"):
        print(f"{text}| only | heads |\n|---|---|\n")
    table = pd.read_csv(tmp_path / "some_1.csv", keep_default_na=False)
    assert table["who"].tolist() == ["a, b", ""]
    assert table["hours"].tolist() == ["1,200.5 [1, 2]", "2.5"]
    assert (tmp_path / "some_1.png").stat().st_size > 1000
    assert not (tmp_path / "some_2.png").exists()  # a table without rows
    assert capsys.readouterr().out.startswith(text)
    assert [each.shape for each in tables_in(text)] == [(2, 3)]
    with kept(None, "some"):
        print(text)
    assert capsys.readouterr().out == f"{text}\n"


@pytest.mark.thorough
def test_costs_are_those_of_the_paper_by_hand(tmp_path: Path) -> None:
    """Wang et al., Equations 2 and 5, Table I: of 100 MB .085969 s, .194769 for two, .412369 s."""
    run("ada_srsf.costs", tmp_path)
    by_size = pd.read_csv(tmp_path / "ada_srsf_costs_1.csv").set_index("size")
    told = [by_size[f"{k} share"].loc["100 MB"] for k in (1, 2, 4)]
    assert told == pytest.approx([0.085969, 0.194769, 0.412369], rel=1e-3)
    by_nodes = pd.read_csv(tmp_path / "ada_srsf_costs_2.csv").set_index("algorithm")
    of_two = by_nodes["2 nodes"].to_dict()
    assert of_two["ring"] == of_two["halving_doubling"]
    models = pd.read_csv(tmp_path / "ada_srsf_costs_3.csv").set_index("model")
    assert models.loc["VGG-16", "computes, alone"] == "16.6 %"


WRITTEN: Mapping[str, tuple[str, ...]] = {
    "gavel.types": ("gavel_types.csv", "gavel_types.png"),
    "gavel.static": ("gavel_static.csv", "gavel_static.png"),
    "dally.by_job": ("dally_by_job_waits.csv", "dally_by_job.png"),
    "cassini.pictures": ("cassini_series.csv", "cassini_snapshot_0.png", "cassini_marks.csv"),
    "cassini.matrix": ("cassini_matrix.csv", "cassini_matrix.png"),
    "elastic.stages": ("elastic_stages_1.csv", "elastic_stages_2.png"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WRITTEN)
def test_experiments_in_little_write_tables_and_pictures(name: str, tmp_path: Path) -> None:
    run(name, tmp_path)
    for file in WRITTEN[name]:
        assert (tmp_path / file).stat().st_size > 30


@pytest.mark.slow
def test_makespans_of_gangs_are_least_under_the_policy_for_them(tmp_path: Path) -> None:
    run("gavel.static", tmp_path)
    table = pd.read_csv(tmp_path / "gavel_static.csv")
    assert (table["over makespan"] >= 1 - 1e-9).all()


@pytest.mark.slow
def test_space_sharing_adds_to_what_entities_have(public_data: Path, tmp_path: Path) -> None:
    run("gavel.hierarchy", tmp_path, "--sharing", "--data", str(public_data / "gavel"))
    runs = pd.read_csv(tmp_path / "gavel_hierarchy_sharing.csv")
    assert (runs["over none"] >= 1 - 1e-6).all()  # whoever may share can leave it
    assert (runs["unaware over aware"] < 1).all()


def test_what_is_measured_now_is_judged_by_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    less = claimed("dally", "comm-tiresias", [Figure("4 racks", 60.0, 55.0, 66.0)])
    assert less["verdict"] == "reproduced"  # at least 53
    same = claimed("dally", "comm-tiresias", [Figure("4 racks", 60.0), Figure("8 racks", 50.0)])
    assert same["verdict"] == "not reproduced"
    assert claimed("dally", "wait-p99", [Figure("", 70.0)])["verdict"] == "reproduced"  # was open
    assert "at least 53; 4 racks: 60 [55, 66])" in capsys.readouterr().out
    with pytest.raises(InputError, match="Did you mean 'comm-tiresias'"):
        claimed("dally", "comm-tiresia", [])


def test_claims_of_the_schedulers_are_in_the_file() -> None:
    known = {claim.name: claim for claim in claims_of("dally")}
    assert CLAIMS.keys() <= known.keys()
    for name, judged in CLAIMS.items():
        assert (judged.arrivals == "poisson") == ("poisson" in name)
        assert judged.against in ("tiresias", "gandiva", "dally_manual")
        # What is recorded is of racks that are judged, but where nobody waits on the paper's.
        racks = {int(each.case.split()[0]) for each in known[name].figures}
        assert racks <= set(judged.racks) or name == "jct-gandiva-poisson"
