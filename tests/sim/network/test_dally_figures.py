from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
import pytest

from benchmarks.dally import shapes as dally_shapes
from benchmarks.dally import table1 as dally_table1

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.thorough
def test_the_table_is_printed_side_by_side(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["dally_table1", "--quick", "--out", str(tmp_path)])
    dally_table1.main()
    shown = capsys.readouterr().out
    assert "\nholds: the preset is Table I" in shown
    assert "network: 0.314" in shown  # by hand: 1 - 6 * 46 / 210, without its sign
    table = pd.read_csv(tmp_path / "dally_table1.csv").set_index(["model", "tier"])
    assert len(table) == 18
    assert table["preset"].tolist() == pytest.approx(table["paper"].tolist())
    verdicts = pd.read_csv(tmp_path / "dally_table1_verdicts.csv")
    off = (table["analytic"] / table["paper"] - 1).abs().xs("network", level="tier")
    words = verdicts.set_index("claim")["verdict"]
    assert (off.drop("BERT-large") <= 0.05).all()
    assert words["dally.table1"] == "reproduced"
    assert off["BERT-large"] > 0.05
    assert words["dally.table1-bert"] == "not reproduced"
    unscaled = pd.read_csv(tmp_path / "dally_table1_unscaled.csv").set_index("model")
    assert unscaled.loc["VGG11", "analytic"] == pytest.approx(0.09, abs=0.005)


@pytest.mark.thorough
def test_growth_stands_beside_the_runs_of_astra_sim(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["dally_shapes", "--quick", "--out", str(tmp_path)])
    dally_shapes.main()
    assert "holds" in capsys.readouterr().out
    table = pd.read_csv(tmp_path / "dally_shapes.csv")
    pairs = table.pivot(index=["network", "GPUs", "shape"], columns="flat", values="MobileNetV3")
    assert (pairs[True] >= pairs[False] * (1 - 1e-12)).all()
    assert set(table["GPUs"]) == {8, 16}
