"""What goes wrong at the door is told by its name, with what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest

import apportion as ap
from apportion.cli import main

SPEEDS = pd.DataFrame({"v100": [3.0, 2.0], "k80": [1.0, 1.0]}, index=["a", "b"])
ALL = {"v100": 1, "k80": 1}
Out = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def said(capsys: Out, *words: str) -> str:
    """Return what a command prints and what it says besides."""
    capsys.readouterr()
    main(list(words))
    return "".join(capsys.readouterr())


@dataclass(frozen=True)
class LogOfASquare(ap.Policy):
    """A concave objective that cvxpy fails to compile."""

    name = "log_of_a_square"
    source = "a test"

    def objective(self, p: ap.Problem) -> cp.Maximize:
        return cp.Maximize(cp.log(1e3 - cp.quad_form(p.throughput, np.eye(p.count.size))))


@dataclass(frozen=True)
class Strict(LogOfASquare):
    name = "strict"

    def objective(self, p: ap.Problem) -> cp.Maximize:
        return cp.Maximize(p.total(p.throughput))

    def constraints(self, p: ap.Problem) -> list[cp.Constraint]:
        return [p.throughput < 1]


@pytest.mark.parametrize("policy", [LogOfASquare(), Strict()])
def test_what_cvxpy_cannot_do_is_told_with_the_policy(policy: ap.Policy) -> None:
    with pytest.raises(ap.InputError, match=type(policy).__name__) as raised:
        ap.solve(policy, SPEEDS, workers=ALL)
    assert "cone" in str(raised.value) or "Strict" in str(raised.value)


def test_what_cvxpy_cannot_do_is_told_in_a_session_too() -> None:
    live = ap.session(LogOfASquare(), ALL)
    live.add(SPEEDS)
    with pytest.raises(ap.InputError, match=r"cannot compile.*LogOfASquare"):
        live.solve()


def test_quotas_of_those_who_are_not_there_are_lent(caplog: pytest.LogCaptureFixture) -> None:
    jobs = {"entity": ["b", "b"]}
    absent = ap.solve(ap.Cohort(quotas={"a": 2}), SPEEDS, workers=ALL, jobs=jobs)
    without = ap.solve(ap.Cohort(), SPEEDS, workers=ALL, jobs=jobs)
    assert absent.objective == pytest.approx(without.objective, rel=1e-9)
    assert any("'a'" in record.getMessage() for record in caplog.records)


def test_a_session_goes_on_when_those_with_a_quota_have_left() -> None:
    live = ap.session(ap.Cohort(quotas={"a": 1}), ALL)
    live.add(SPEEDS, {"entity": ["a", "b"]})
    live.solve()
    live.remove(["a"])
    assert live.solve().X.loc["b", "v100"] == pytest.approx(1.0)


def drawn() -> ap.Workload:
    return ap.generate_workload(jobs=3)


@pytest.mark.parametrize(
    "call",
    [
        lambda **more: ap.solve("fifo", SPEEDS, workers=ALL, **more),
        lambda **more: ap.simulate("fifo", drawn(), "v100=2", **more),
        lambda **more: ap.compare(["fifo"], drawn(), "v100=2", **more),
        lambda **more: ap.sweep(["fifo"], drawn(), "v100=2", **more),
        lambda **more: ap.read_workload("none.csv", **more),
    ],
)
def test_an_argument_that_is_not_there_is_named(call: object) -> None:
    assert callable(call)
    with pytest.raises(ap.InputError, match=r"'verbose'.*logging.*Valid: ") as raised:
        call(verbose=True)
    assert "self" not in str(raised.value).split("Valid: ")[1].split(", ")
    with pytest.raises(ap.InputError, match="'colour'"):
        call(colour=True)


def test_a_comparison_is_plotted_as_its_runs_are() -> None:
    pytest.importorskip("matplotlib")
    compared = ap.compare(["fifo"], drawn(), "v100=2", n_jobs=1)
    shown = ap.plot(compared, "utilization").axes[0].get_lines()
    by_itself = ap.plot(compared.runs, "utilization").axes[0].get_lines()
    assert len(shown) == len(by_itself)
    for one, other in zip(shown, by_itself, strict=True):
        np.testing.assert_array_equal(one.get_xydata(), other.get_xydata())
    with pytest.raises(ap.InputError, match="Unknown plot"):
        ap.plot(compared, "colours")
    with pytest.raises(ap.InputError, match="runs is a DataFrame; it must be a Run") as raised:
        ap.plot(compared.summary())  # type: ignore[arg-type]
    assert len(str(raised.value)) < 200


def test_one_policy_and_one_type_are_told_by_name(capsys: Out) -> None:
    cohort = said(capsys, "policies", "cohort")
    assert "columns: entity" in cohort
    assert "borrowing" in cohort
    assert "fifo" not in cohort
    assert "EASY" in said(capsys, "policies", "easy")
    h100 = said(capsys, "accelerators", "h100")
    assert "memory_gb: 80" in h100
    assert "k80" not in h100
    assert "memory_gb: 5" in said(capsys, "accelerators", "a100-1g.5gb")
    assert '"year": 2022' in said(capsys, "accelerators", "h100", "--format", "json")
    assert "Did you mean 'max_min_fairness'" in said(capsys, "policies", "max_min_fairnes")
    assert "Did you mean 'h100'" in said(capsys, "accelerators", "h101")


def test_an_unknown_job_type_has_ways_out(capsys: Out) -> None:
    own = Path("own.csv")
    own.write_text("job,submit,took,what\na,0,60,jupyter\nb,9,60,A3C\n")
    columns = "job=job,submit=arrival_s,took=duration_s"
    typed = f"{columns},what=job_type"
    compare = ["compare", "--cluster", "v100=2", "--policies", "fifo", "--workload"]
    told = said(capsys, *compare, f"own.csv(columns='{typed}')")
    for way in ("'jupyter'", "missing='drop'", "throughputs=", "--workload 'FILE("):
        assert way in told
    with pytest.raises(ap.InputError, match=r"missing='drop'.*throughputs=.*columns="):
        ap.read_workload(own, columns=typed)
    assert list(ap.read_workload(own, columns=typed, missing="drop").jobs.index) == ["b"]
    assert len(ap.read_workload(own, columns=columns)) == 2
    speeds = pd.DataFrame(
        {"v100": [2.0, 1.0]},
        index=pd.MultiIndex.from_tuples(
            [("jupyter", 1), ("A3C", 1)], names=["job_type", "scale_factor"]
        ),
    )
    assert len(ap.read_workload(own, columns=typed, throughputs=speeds)) == 2
    own.write_text("job,submit,took,what\na,0,60,jupyter\n")
    with pytest.raises(ap.InputError, match="none of the 1 jobs has throughputs"):
        ap.read_workload(own, columns=typed, missing="drop")


def test_gangs_that_are_too_large_have_a_way_out(capsys: Out) -> None:
    head = "job,arrival_s,total_steps,scale_factor,job_type\n"
    name = "Transformer (batch size 16)"
    Path("own.csv").write_text(f"{head}a,0,60,8,{name}\nb,9,60,1,{name}\n")
    compare = ["compare", "--workload", "own.csv", "--cluster", "v100=4", "--policies", "fifo"]
    assert "--too-large drop" in said(capsys, *compare, "--jobs", "1")
    given = ap.read_workload("own.csv")
    with pytest.raises(ap.InputError, match=r"'a'.*fitting\(cluster\)"):
        ap.simulate("fifo", given, "v100=4")
    assert list(ap.simulate("fifo", given.fitting("v100=4"), "v100=4").jobs.index) == ["b"]


def test_lines_that_are_wrong_alike_are_one_note() -> None:
    wrong = [f"j{row},{row},{'x' * (row % 7)}y" for row in range(300)]
    short = ["k1,1", "k2,2,3,4"]
    lines = ["job,submit,took", *wrong, *short, "right,5,60", "late,soon,60"]
    Path("own.csv").write_text("\n".join(lines))
    notes = ap.read_workload("own.csv", columns="job=job,submit=arrival_s,took=duration_s").notes
    about = [note for note in notes if "left out" in note]
    assert len(about) == 3
    assert "line 2, took is 'y'" in about[0]
    assert about[0].endswith(": 300 lines (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ...)")
    assert about[1].endswith(": 2 lines (302, 303)")
    assert about[2].startswith("line 305 left out: submit is 'soon'")


@dataclass(frozen=True)
class TwoGpusEach(Strict):
    """No user holds more than a GPU, as the docstring of `texts` has it."""

    name = "two_gpus_each"
    columns = ("user",)

    def constraints(self, p: ap.Problem) -> list[cp.Constraint]:
        user = np.arange(len(p.texts("user")))[:, None] == p.column("user")
        held = user @ cp.multiply(p.count * p.scale_factor, p.time)
        return [held <= 1]


def test_texts_are_distinct_and_columns_have_their_places() -> None:
    speeds = pd.DataFrame({"v100": [9.0, 8.0, 1.0]}, index=["a", "b", "c"])
    jobs = {"user": ["ann", "ann", "bob"]}
    found = ap.solve(TwoGpusEach(), speeds, workers={"v100": 3}, jobs=jobs)
    assert found.X["v100"].tolist() == pytest.approx([1.0, 0.0, 1.0])
    assert "distinct" in str(ap.Problem.texts.__doc__)


def own_log(path: Path) -> None:
    head = "job,arrival_s,total_steps,scale_factor,job_type"
    kinds = ["LM (batch size 20)", "Transformer (batch size 64)"]
    lines = [f"j{row},{60 * row},3000,{1 + row % 2},{kinds[row % 2]}" for row in range(6)]
    path.write_text("\n".join([head, *lines]))


@pytest.mark.thorough
def test_racks_and_a_log_of_ones_own_have_a_way_without_a_network(capsys: Out) -> None:
    own_log(Path("own.csv"))
    compare = ["compare", "--workload", "own.csv", "--cluster", "v100=16", "--jobs", "1"]
    chosen = [*compare, "--policies", "dally,tiresias,gandiva,themis", "--start-costs", "0"]
    assert "--mechanism 'leases(network=none)'" in said(capsys, *chosen)
    assert main([*chosen, "--mechanism", "leases(network=none)"]) == 0
    told = pd.read_csv("out/compare/summary.csv")
    assert told["error"].isna().all()
    assert (told["policy"] == ["dally", "tiresias", "gandiva", "themis"]).all()


def test_a_skew_that_nobody_knows_is_taken_as_low(caplog: pytest.LogCaptureFixture) -> None:
    own_log(Path("own.csv"))
    given = ap.read_workload("own.csv")
    free = ap.simulate("tiresias", given, "v100=16", network="none")
    names = given.jobs["job_type"].unique()
    assert all(name in caplog.records[0].getMessage() for name in names)
    low = ap.get_scheduler("tiresias", skews=dict.fromkeys(names, 0.0))
    told = ap.simulate(low, given, "v100=16", network="none")
    pd.testing.assert_series_equal(free.jobs["completion_s"], told.jobs["completion_s"])


def test_rigid_jobs_under_those_who_choose_sizes_have_a_note() -> None:
    compared = ap.compare(["sia", "fifo"], drawn(), "v100=2", n_jobs=1)
    assert any("under sia jobs have fixed numbers of GPUs" in note for note in compared.notes)
    plain = ap.compare(["fifo"], drawn(), "v100=2", n_jobs=1)
    assert not any("fixed numbers" in note for note in plain.notes)


def test_the_site_says_where_it_begins() -> None:
    pytest.importorskip("sphinx")
    pytest.importorskip("latex2mathml")
    from sphinx.application import Sphinx
    from sphinx.errors import ConfigError

    docs = Path(__file__).parents[1] / "docs"
    with pytest.raises(ConfigError, match=r"sphinx-build -c docs \. out/site"):
        Sphinx(str(docs), str(docs), "site", "site", "html", status=None, warning=None)
