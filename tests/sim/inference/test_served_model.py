from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import apportion as ap
from apportion.cli import main
from apportion.errors import InputError

HEAD = "phase,size,a100,h100\n"
DECODED = "prefill,100,.1,.05\ndecode,1,.02,.01\ndecode,5,.04,.03\n"


def asked(count: int = 20, gap_s: float = 0.25) -> pd.DataFrame:
    return pd.DataFrame(
        {"arrival_s": np.arange(count) * gap_s, "context_tokens": 100.0, "generated_tokens": 5.0}
    )


def test_worked_language_model() -> None:
    """Prefill of 100 tokens .1 s, then four steps; the second prompt comes during the first."""
    model = ap.ServedModel(prefill={"a": {100: 0.1}}, decode={"a": {1: 0.02, 2: 0.03}})
    run = ap.serve_replicas(asked(2, 0.11), model, {"a": 1}).requests
    # The first: prefill until .1, a step until .12; it waits for the prefill of the second.
    assert run["ttft_s"].tolist() == pytest.approx([0.1, 0.12 + 0.1 - 0.11])
    assert run["finish_s"].tolist() == pytest.approx([0.22 + 3 * 0.03, 0.22 + 3 * 0.03 + 0.02])
    assert run["tpot_s"].tolist() == pytest.approx([(0.31 - 0.1) / 4, (0.33 - 0.22) / 4])


def test_sizes_between_are_interpolated_and_callables_are_asked() -> None:
    model = ap.ServedModel(request={"a": {2: 0.2, 4: 0.4}})
    assert model.batch_seconds("a") == pytest.approx([0.2, 0.2, 0.3, 0.4])
    other = ap.ServedModel(request=lambda _, size: 0.1 * max(size, 2), batch=4)
    assert other.batch_seconds("a") == pytest.approx(model.batch_seconds("a"))
    prefill = ap.ServedModel(
        prefill={"a": {10: 1.0, 20: 3.0}}, decode={"a": {1: 1.0}}
    ).prefill_seconds("a")
    assert [prefill(n) for n in (1, 10, 15, 20, 30)] == pytest.approx([1, 1, 2, 3, 5])


def test_replicas_lie_on_one_machine() -> None:
    model = ap.ServedModel(gpus=4, request={"a": {1: 1.0}})
    requests = pd.DataFrame({"arrival_s": [0.0] * 5})
    run = ap.serve_replicas(requests, model, ap.Cluster({"a": 22}, gpus_per_machine=8))
    assert sorted(run.requests["gpu"]) == [0, 4, 8, 12, 16]
    run = ap.serve_replicas(requests, model, ap.Cluster({"a": 21}, gpus_per_machine=6))
    assert sorted(run.requests["gpu"]) == [0, 0, 6, 6, 12]
    assert run.gpu_hours.sum() == pytest.approx(21 * 2 / 3600)
    assert run.gpu_hours["running"] == pytest.approx(5 * 4 / 3600)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("phase,size\nrequest,1\n", "no column of seconds; a header is 'phase,size,a100,h100'"),
        ("fase,size,a\nrequest,1,2\n", "no column 'phase'. The nearest is 'fase'"),
        (HEAD + "reqest,1,1,1\n", "line 2: phase is 'reqest'; it must be one of request, prefill"),
        (HEAD + "request,0,1,1\n", "line 2: size is '0'; it must be a whole number >= 1"),
        (HEAD + "request,1,1,1\nrequest,2,x,1\n", "line 3: a100 is 'x'; it must be a number > 0"),
        (HEAD + "request,1,1,1\nrequest,1,1,1\n", "has request of size 1 on a100 twice"),
        (HEAD + "request,1,2,1\nrequest,2,1,1\n", "request of size 2 on a100 takes 1 s, less"),
        (HEAD + "decode,1,1,1\n", "prefill and decode; add prefill"),
        (HEAD + "decode,1,1,1\nprefill,1,1,\n", "prefill knows a100, decode a100, h100"),
        (HEAD + DECODED + "request,1,1,1\n", "either seconds of a request, or of prefill"),
    ],
)
def test_tables_that_are_none(tmp_path: Path, table: str, words: str) -> None:
    file = tmp_path / "m.csv"
    file.write_text(table)
    with pytest.raises(InputError) as error:
        ap.ServedModel.from_table(file)
    assert words in str(error.value)


def test_a_table_is_as_its_file(tmp_path: Path) -> None:
    file = tmp_path / "m.csv"
    file.write_text(HEAD + DECODED)
    one, two = ap.ServedModel.from_table(file), ap.ServedModel.from_table(pd.read_csv(file))
    assert (one.prefill, one.decode) == (two.prefill, two.decode)
    with pytest.raises(InputError, match=r"The table, line 2: size is '0'"):
        ap.ServedModel.from_table(pd.read_csv(file).assign(size=[0, 1, 5]))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m: ap.serve_replicas(asked(), m, "t4=2"), "Valid: a100, h100"),
        (lambda m: ap.serve_replicas(asked()[["arrival_s"]], m, "a100=2"), "context_tokens"),
        (lambda m: ap.cheapest_gpus(asked(), m, {"p99": 1.0}, "a100=2"), "such as p99_ttft_s"),
        (lambda m: ap.cheapest_gpus(asked(), m, {}, "a100=2"), "p99_ttft_s"),
        (lambda m: ap.cheapest_gpus(asked(), m, {"p99_ttft_s": 0.0}, "a100=2"), "> 0"),
        (
            lambda m: ap.cheapest_gpus(asked(), m, {"p99_ttft_s": 0.01}, "a100=2"),
            "the SLO p99_ttft_s=0.01 is missed: p99_ttft_s is",
        ),
    ],
)
def test_what_cannot_be_served(call: Any, words: str) -> None:
    model = ap.ServedModel.from_table(pd.read_csv(_file(HEAD + DECODED)))
    with pytest.raises(InputError) as error:
        call(model)
    assert words in str(error.value)


def _file(text: str) -> Any:
    from io import StringIO

    return StringIO(text)


def test_prices_and_order_of_types_do_not_change_the_answer() -> None:
    model = ap.ServedModel.from_table(pd.read_csv(_file(HEAD + DECODED)))
    slo = {"p99_request_s": 0.4}
    prices = {"a100": 1.0, "h100": 1.5}
    found = [
        ap.cheapest_gpus(asked(80, 0.03), model, slo, ap.Cluster(gpus, prices_per_gpu_hour=prices))
        for gpus in ({"a100": 9, "h100": 9}, {"h100": 9, "a100": 9})
    ]
    assert found[0].price == found[1].price
    assert found[0].unit == "$/h"
    assert f"${found[0].price:,.2f} an hour" in str(found[0])
    plain = ap.cheapest_gpus(asked(80, 0.03), model, slo, {"x": 0, "a100": 9})
    assert plain.unit in ("$/h", "GPUs")


@pytest.mark.thorough
def test_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.csv").write_text(HEAD + DECODED)
    asked().rename(columns={"arrival_s": "When", "context_tokens": "in"}).to_csv("r.csv")
    columns = "arrival_s=When,context_tokens=in,generated_tokens=generated_tokens"
    words = ["serve", "r.csv", "--columns", columns, "--model", "m.csv", "--gpus", "a100=4,h100=2"]
    assert main([*words, "--out", "out"]) == 0
    assert "P99 time to first token" in capsys.readouterr().out
    table = pd.read_csv("out/requests.csv")
    model = ap.ServedModel.from_table("m.csv")
    run = ap.serve_replicas(asked(), model, "a100=4,h100=2").requests
    np.testing.assert_allclose(table["ttft_s"], run["ttft_s"], rtol=1e-12)
    slo = ["--fewest", "--slo", "p99_ttft_s=0.3", "--prices", "a100=1,h100=3"]
    assert main([*words, *slo, "--training-gpus", "2", "--training-jobs", "2"]) == 0
    out = capsys.readouterr().out
    assert "Cheapest: " in out
    assert "hours of training at a fair share" in out
    for wrong, told in (
        (["--slo", "p99_ttft_s=1"], "--slo needs --fewest"),
        (["--fewest", "--slo", "p99_ttft_s"], "is no NAME=VALUE"),
    ):
        assert main([*words, *wrong]) == 2
        assert told in capsys.readouterr().err
    assert main(["serve", "r.csv", *words[4:], "--columns", "arrival_s=when"]) == 2
    assert "The nearest is 'When'" in capsys.readouterr().err
    assert main(["serve", "r.csv", "--gpus", "2", "--batch", "3"]) == 2
    assert "give --model FILE" in capsys.readouterr().err
