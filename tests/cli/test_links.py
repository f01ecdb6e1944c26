from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from apportion.cli import main

if TYPE_CHECKING:
    from pathlib import Path

GANGS = ["--gang", "a=0,2", "--gang", "b=3-4"]
MODELS = ["--model", "a=ResNet50", "--model", "b=ResNet50"]


def test_links_of_gangs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["links", "cassini", *GANGS]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "cassini: 24 GPUs, 36 links"
    assert ["leaf", "1", "50", "a,", "b"] in [line.split() for line in lines]
    assert main(["links", "gb200_nvl72"]) == 0
    assert "2304 GPUs" in capsys.readouterr().out


@pytest.mark.thorough
def test_jobs_that_share_a_link_are_shifted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["links", "cassini", *GANGS, *MODELS, "--plot", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    assert "leaf 1" in printed
    assert "Score of the placement: 1.000" in printed
    assert "a starts 0 s later" in printed
    assert {file.name for file in (tmp_path / "out").iterdir()} == {
        "affinity_graph.png",
        "link_leaf_1.png",
    }


def test_a_file_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "ring.toml"
    file.write_text('kind = "torus"\ndimensions = [6]\nlink_gbps = 100')
    gangs = ["--gang", "a=0,2", "--gang", "b=1,4", "--gang", "c=3,5"]
    models = [*MODELS, "--model", "c=BERT"]
    assert main(["links", str(file), *gangs, *models]) == 0
    assert "Loops in the affinity graph: 2" in capsys.readouterr().out


@pytest.mark.thorough
def test_profiles_from_samples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "traffic.csv"
    lines = ["time,a,b,idle"]
    for count in range(400):
        a, b = (40 if (count - late) % 10 < 4 else 0 for late in (0, 2))
        lines.append(f"{0.02 * (count + 1):.2f},{a},{b},0")
    file.write_text("\n".join(lines))
    assert main(["links", "--samples", str(file), "--gbps", "50"]) == 0
    printed = capsys.readouterr().out
    assert "idle: it always sends 0 Gb/s" in printed
    assert "Two jobs on a link of 50 Gb/s:" in printed
    assert [line.split()[3] for line in printed.splitlines() if line.startswith("a + b")] == ["yes"]
    assert main(["links", "cassini", "--samples", str(file), *GANGS]) == 0
    assert "Score of the placement: 1.000" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "Give a TOPOLOGY, or --samples"),
        (["--samples", "none.csv"], "Cannot read the samples"),
        (["casini"], "Did you mean 'cassini'"),
        (["none.toml"], "Cannot read the topology"),
        (["cassini", "--gang", "a"], "write JOB=VALUE"),
        (["cassini", "--gang", "a=0", "--gang", "a=1"], "each job once"),
        (["cassini", "--gang", "a=0-x"], "write GPUs as 0,2,5-7"),
        (["cassini", "--gang", "a=3-1"], "write GPUs as"),
        (["cassini", "--gang", "a=0-24"], "A GPU of 'cassini' is 24"),
        (["cassini", *GANGS, "--model", "a=VGG16"], "job 'b' has no --model"),
        (["cassini", *GANGS, *MODELS, "--model", "c=VGG16"], "job of --model 'c'"),
        (["cassini", "--gang", "a=0,1", "--model", "a=VGG"], "Did you mean 'VGG"),
    ],
)
def test_what_is_wrong_is_named(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["links", *words]) == 2
    assert message in capsys.readouterr().err
