from __future__ import annotations

import re
import subprocess
import sys
import warnings
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.cli import output
from apportion.cluster import Cluster
from apportion.errors import InputError
from apportion.experiments import Comparison
from apportion.report import PLOT_KINDS, human_table, plot
from apportion.report.series import (
    busiest_job_types,
    distribution,
    received_share,
    running_and_waiting,
    utilization,
)
from apportion.report.style import inline_svg, new_figure
from apportion.report.tables import notes_on
from apportion.sim import Run, Workload
from apportion.statistics.typeset import HumanTable

if TYPE_CHECKING:
    from pathlib import Path

CLUSTER = Cluster({"v100": 2, "k80": 2})
VOID = {"meta", "br", "link", "img", "input", "hr"}


def a_run(policy: str, jobs: int = 30, seed: int = 0, types: list[str] | None = None) -> Run:
    """Tables of the right form with numbers out of the air."""
    rng = np.random.default_rng(seed)
    kinds = types or ["ResNet-18", "LM"]
    arrival = np.sort(rng.uniform(0, 1e4, jobs))
    seconds = rng.uniform(100, 5000, (jobs, 2))
    jct = seconds.sum(axis=1) * rng.uniform(1, 4, jobs)
    size = rng.choice([1, 2], jobs)
    table = pd.DataFrame(
        {
            "job_type": [kinds[i % len(kinds)] for i in range(jobs)],
            "scale_factor": size,
            "arrival_s": arrival,
            "start_s": arrival,
            "completion_s": arrival + jct,
            "jct_s": jct,
            "queueing_s": jct - seconds.sum(axis=1),
            "isolated_s": jct / 1.5,
            "ftf": 1.5 * rng.uniform(0.5, 1, jobs),
            "gpu_seconds": seconds.sum(axis=1) * size,
            "cost": 1.0,
            "preemptions": 0,
            "v100_s": seconds[:, 0],
            "k80_s": seconds[:, 1],
        },
        index=pd.RangeIndex(jobs, name="job"),
    )
    return Run(policy, "w", CLUSTER, table, some_rounds(jobs, rng), {}, 0.5, 1.0, 10)


def some_rounds(count: int, rng: np.random.Generator) -> pd.DataFrame:
    start = np.arange(count) * 400.0  # 360 s long, so that 40 s between them are idle
    running = rng.integers(0, 4, count)
    return pd.DataFrame(
        {
            "start_s": start,
            "end_s": start + 360.0,
            "active_jobs": running + rng.integers(0, 3, count),
            "running_jobs": running,
            "preemptions": 0,
            "resolved": True,
            "v100_busy": rng.uniform(0, 720, count),
            "k80_busy": rng.uniform(0, 720, count),
        }
    )


def a_workload(name: str = "w", job_type: str = "LM", notes: tuple[str, ...] = ()) -> Workload:
    jobs = pd.DataFrame({"job_type": [job_type], "total_steps": [100.0]})
    index = pd.MultiIndex.from_tuples([(job_type, 1)], names=["job_type", "scale_factor"])
    return Workload(name, jobs, pd.DataFrame({"v100": [1.0], "k80": [0.5]}, index=index), notes)


def a_comparison(workload: Workload | None = None, jobs: int = 30) -> Comparison:
    runs = {name: a_run(name, jobs, seed=i) for i, name in enumerate(["fifo", "makespan"])}
    return Comparison(runs, workload or a_workload(), CLUSTER, {"round_seconds": 360.0, "seed": 0})


class Balance(HTMLParser):
    """Checks that every tag is closed in order, and collects ids and addresses."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.references: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self._collect(attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._collect(attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def _collect(self, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in {"href", "src", "xlink:href"}:
                self.references.append(value or "")


def parsed(page: str) -> Balance:
    parser = Balance()
    parser.feed(page)
    parser.close()
    return parser


@pytest.mark.thorough
def test_page_is_one_well_formed_file_that_loads_nothing() -> None:
    page = a_comparison().to_html()
    found = parsed(page)
    assert found.open == []
    assert "http" not in page
    assert "@import" not in page
    assert re.findall(r"url\((?!#)", page) == []
    assert all(reference.startswith("#") for reference in found.references)
    assert len(found.ids) == len(set(found.ids))
    assert {reference[1:] for reference in found.references} <= set(found.ids)
    assert page.count("<svg") == len(PLOT_KINDS)


@pytest.mark.thorough
def test_page_escapes_what_users_name() -> None:
    nasty = "<script>alert('x & y')</script>"
    comparison = a_comparison(a_workload(nasty, notes=(nasty,)))
    page = comparison.to_html()
    assert page.count("<script") == 1  # its own
    assert "<script>alert" not in page
    assert page.count("&lt;script&gt;") >= 3
    assert parsed(page).open == []


@pytest.mark.thorough
def test_names_in_plots_are_taken_literally() -> None:
    run = a_run("a<b & $x$", types=["$\\frac{1$", "<b>bold</b>"])
    for kind in PLOT_KINDS:
        text = inline_svg(plot({run.policy: run}, kind), kind)
        assert parsed(text).open == []
    assert "$\\frac{1$" in inline_svg(plot({"p": run}, "received_time"), "x")
    runs = {name: a_run(name) for name in ("url(#a)", '" id="b')}
    drawn = inline_svg(plot(runs, "utilization"), "x")
    assert ">url(#a)<" in drawn
    assert '>" id="b<' in drawn


def test_letters_that_the_plots_have_no_font_for_are_left_to_the_browser() -> None:
    plot({"x": a_run("x")}, "completion_times")  # what old packages say as they are imported
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn = inline_svg(plot({"\u6f22\u5b57": a_run("x")}, "completion_times"), "x")
    assert "\u6f22\u5b57" in drawn


@pytest.mark.thorough
def test_same_comparison_same_bytes() -> None:
    assert a_comparison().to_html() == a_comparison().to_html()


@pytest.mark.thorough
def test_page_of_many_jobs_stays_small() -> None:
    assert len(a_comparison(jobs=20_000).to_html().encode()) < 2_000_000


@pytest.mark.thorough
def test_every_module_of_plots_names_the_extra_that_it_needs() -> None:
    code = (
        "import sys, pkgutil, importlib\n"
        "sys.modules['matplotlib'] = sys.modules['jinja2'] = None\n"
        "import apportion.report as report\n"
        "from apportion.errors import ApportionError\n"
        "for each in pkgutil.iter_modules(report.__path__, 'apportion.report.'):\n"
        "    try:\n"
        "        importlib.import_module(each.name)\n"
        "    except ApportionError as error:\n"
        "        print(each.name, 'apportion[plot]' in str(error))\n"
    )
    code += (
        "try:\n"
        "    report.files.page_of('', '', '', [])\n"
        "except ApportionError as error:\n"
        "    print('pages', 'apportion[plot]' in str(error))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "apportion.report.figure True\npages True\n"


def test_page_without_matplotlib_has_tables_and_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("apportion.report.built_in.find_spec", lambda name: None)
    page = a_comparison().to_html()
    assert "<svg" not in page
    assert "<table" in page
    assert "pip install apportion[plot]" in page
    assert "pip install apportion[plot]" in caplog.text


def test_without_templates_the_page_alone_is_missing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    (tmp_path / "report.html").write_text("of an earlier comparison")
    monkeypatch.setattr("apportion.report.files.find_spec", lambda name: None)
    saved = [file.name for file in a_comparison().save(tmp_path)]
    assert saved == ["summary.csv", "jobs.csv", "run.json"]
    assert sorted(saved) == sorted(file.name for file in tmp_path.iterdir())
    assert "There is no report.html. Pages of HTML need jinja2: pip install" in caplog.text
    assert a_comparison()._repr_html_() is None


def test_unknown_plot_names_the_nearest() -> None:
    with pytest.raises(InputError, match="Did you mean 'utilization'"):
        a_comparison().plot("utilisation")


def test_a_run_alone_is_drawn_as_among_several() -> None:
    run = a_run("x")
    alone, among = (inline_svg(plot(given, "utilization"), "x") for given in (run, {"x": run}))
    assert alone == among
    with pytest.raises(InputError, match="it must be a Run or a mapping to a Run"):
        plot("x")  # type: ignore[arg-type]


@given(st.lists(st.floats(0.1, 1e6), min_size=1, max_size=900))
@settings(max_examples=50, deadline=None)
def test_distribution_is_the_empirical_one(numbers: list[float]) -> None:
    values, share = distribution(np.array([*numbers, np.nan]))
    assert values[0] == min(numbers)
    assert values[-1] == max(numbers)
    assert share[-1] == 1.0
    assert len(values) <= 300
    for value, part in zip(values, share, strict=True):
        below = sum(number < value for number in numbers) / len(numbers)
        at_most = sum(number <= value for number in numbers) / len(numbers)
        assert below < part <= at_most + 1e-12


@given(st.integers(1, 40), st.integers(1, 60), st.integers(0, 9))
@settings(max_examples=40, deadline=None)
def test_bins_conserve_gpu_seconds_and_job_seconds(count: int, bins: int, seed: int) -> None:
    run = a_run("p", jobs=count, seed=seed)
    rounds = run.rounds
    edges = np.linspace(0.0, rounds["end_s"].max(), bins + 1)
    width = np.diff(edges)
    busy = np.sum(utilization(run, edges) * width) * CLUSTER.total_gpus
    assert busy == pytest.approx(rounds["v100_busy"].sum() + rounds["k80_busy"].sum())
    running, waiting = running_and_waiting(run, edges)
    assert np.sum(running * width) == pytest.approx(360 * rounds["running_jobs"].sum())
    both = np.sum((running + waiting) * width)
    assert both == pytest.approx(360 * rounds["active_jobs"].sum())


def test_utilization_by_hand() -> None:
    run = a_run("p", jobs=2)
    run.rounds[["v100_busy", "k80_busy"]] = [[720.0, 0.0], [720.0, 720.0]]
    # Rounds from 0 to 360 (2 of 4 GPUs) and from 400 to 760 (4 of 4); the edge cuts the second.
    share = utilization(run, np.array([0.0, 360.0, 580.0, 760.0, 800.0]))
    assert share[:3] == pytest.approx([0.5, 180 / 220, 1.0])
    assert np.isnan(share[3])


def test_received_share_by_hand() -> None:
    run = a_run("p", jobs=3, types=["a", "b", "c"])
    run.jobs["job_type"] = ["a", "a", "b"]
    run.jobs["scale_factor"] = [1, 2, 1]
    run.jobs["v100_s"] = [10.0, 10.0, 0.0]
    run.jobs["k80_s"] = [0.0, 5.0, 0.0]
    share = received_share(run, ["a", "b"])
    assert share[0] == pytest.approx([0.75, 0.25])  # 10 + 20 GPU-seconds against 10
    assert np.isnan(share[1]).all()


def test_many_job_types_are_gathered() -> None:
    run = a_run("p", jobs=200, types=[f"type {i:02d}" for i in range(50)])
    names = busiest_job_types([run])
    assert len(names) == 30
    assert names[-1] == "21 other job types"
    assert received_share(run, names).sum(axis=1) == pytest.approx(np.ones(30))


def summary_of(**columns: list[float]) -> pd.DataFrame:
    return a_comparison().summary().assign(**columns)


@pytest.mark.parametrize(
    ("longest_s", "unit", "shown"), [(3599, "s", "18.20"), (3600, "h", "0.01")]
)
def test_short_times_are_in_seconds(longest_s: float, unit: str, shown: str) -> None:
    summary = pd.DataFrame(
        {"policy": ["p", "q"], "mean_jct_s": [18.2, 20.0], "makespan_s": [70.0, longest_s]}
    )
    table = human_table(summary)
    assert table.units == ("", unit, unit)
    assert table.cells[0][1] == shown


def test_runs_that_serve_requests_show_so_and_prices_make_room() -> None:
    of_requests = {"slo_attainment": [0.9912, 1.0], "p99_delay_s": [1.25, 0.0], "reclaims": [7, 0]}
    columns = {"p50_delay_s": [0.0, 0.0], "cost": [1.0, 2.0], **of_requests}
    summary = pd.DataFrame({"policy": ["p", "q"], "mean_jct_s": [3600.0, 7200.0], **columns})
    table = human_table(summary, brief=True)
    assert table.header == ("policy", "mean JCT", "in SLO", "p99 delay", "reclaims")
    assert table.cells[0] == ("p", "1.00", "99.12", "1.25", "7")
    assert {"cost", "p50 delay"} <= set(human_table(summary).header)


def test_summary_table_in_human_units_with_the_best_marked() -> None:
    seeds = {"mean_jct_s": [[7000.0, 7400.0], [3500.0, 3700.0]], "utilization": [[0.5, 0.5]] * 2}
    table = human_table(
        summary_of(mean_jct_s=[7200.0, 3600.0], utilization=[0.5, 0.256], cost=[12345.6, np.nan]),
        replicates={name: np.array(each) for name, each in seeds.items()},
    )
    place = {name: table.header.index(name) for name in ("mean JCT", "busy", "cost", "policy")}
    assert [row[place["mean JCT"]] for row in table.cells] == ["2.00", "1.00"]
    assert [row[place["mean JCT"]] for row in table.marks] == ["", "*"]
    assert [row[place["busy"]] for row in table.cells] == ["50.0", "25.6"]
    assert [row[place["busy"]] for row in table.marks] == ["", ""]  # no two seeds differ
    assert [row[place["cost"]] for row in table.cells] == ["12,346", "-"]
    assert [row[place["policy"]] for row in table.marks] == ["", ""]
    assert "* best, by more than noise." in table.legend
    assert "~" not in table.legend


def test_nothing_is_best_where_nobody_knows_the_noise() -> None:
    table = human_table(summary_of(mean_jct_s=[3600.0, 7200.0]))
    assert not any(map(any, table.marks))
    assert "best" not in table.legend


def test_rows_of_several_mechanisms_say_which_and_prices_make_room() -> None:
    summary = summary_of(cost=[1.0, 2.0])
    summary.insert(1, "mechanism", ["rounds", "queue"])
    table = human_table(summary, brief=True)
    assert table.keys == 2
    assert table.header[:2] == ("policy", "mechanism")
    assert [row[1] for row in table.cells] == ["rounds", "queue"]
    assert not any(row[1] for row in table.marks)
    assert "cost" not in table.header
    assert "cost" in human_table(summary).header


def test_text_table_is_aligned_and_fits_a_terminal() -> None:
    summary = summary_of(
        mean_jct_s=[3.6e6, 3600.0],
        makespan_s=[3.6e7, 1.0],
        cost=[1e6, 1.0],
        preemptions=[123456, 1],
        ftf_max=[1234.0, 1.0],
    ).assign(policy=["max_min_fairness_agnostic", "fifo"])
    lines = str(human_table(summary, brief=True)).splitlines()
    assert max(map(len, lines)) <= 100
    # The last digit of a column stands in the same place in every row.
    ends = [[match.end() for match in re.finditer(r"[\d.,]+(?=\*?)", line)] for line in lines[2:]]
    assert ends[0] == ends[1]


@pytest.mark.parametrize("width", [1, 40, 60, 80, 100, 200])
def test_blocks_fit_a_terminal_and_hold_every_column_once(width: int) -> None:
    table = human_table(a_comparison().summary())
    blocks = table.blocks(width)
    assert [name for block in blocks for name in block.header[1:]] == list(table.header[1:])
    for block in blocks:
        assert [row[0] for row in block.cells] == ["fifo", "makespan"]
        assert len(block.header) == 2 or max(map(len, str(block).splitlines())) <= width
    cells = zip(*(block.cells for block in blocks), strict=True)
    assert [sum((row[1:] for row in rows), ()) for rows in cells] == [
        row[1:] for row in table.cells
    ]


@pytest.mark.parametrize("width", [20, 80, 120])
def test_terminals_cut_no_name_and_no_number(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("rich", reason="rich is not installed: pip install apportion[cli]")
    monkeypatch.setattr(output, "width", lambda: width)
    monkeypatch.setattr(output, "_rich_terminal", lambda: True)
    summary = a_comparison().summary().assign(policy=["max_min_fairness_agnostic", "[bold]x"])
    table = human_table(summary)
    output.print_summary(table)
    printed = capsys.readouterr().out
    for text in [*table.header, *(text for row in table.cells for text in row)]:
        assert text in printed
    assert width == 20 or max(map(len, printed.splitlines())) <= width


def test_a_figure_is_a_picture_where_a_notebook_asks_for_one() -> None:
    figure = a_comparison().plot()
    picture = figure._repr_png_()  # type: ignore[attr-defined]
    assert picture.startswith(b"\x89PNG\r\n")
    assert len(picture) > 5000


@pytest.mark.parametrize(
    ("mechanism", "seconds", "said"),
    [
        ("rounds", 0.0, "starts and preemptions cost no time"),
        ("rounds", 60, ""),
        ("rounds", {"bert": 60.0}, ""),
        ("exact", 0.0, "starts and preemptions cost no time"),
        ("leases", 0.0, ""),  # checkpoints cost time
        ("rounds", "measured", "a start or move costs 30 to 103 s by model"),
    ],
)
def test_a_note_says_what_starts_cost(mechanism: str, seconds: Any, said: str) -> None:
    jobs = pd.DataFrame({"job_type": ["bert", "a", "LM (batch size 5)"]})
    told = {"mechanism": mechanism, "preemption_overhead_seconds": seconds}
    drawn, *notes = notes_on(["drawn"], jobs, told)
    assert drawn == "drawn"
    assert [note.partition(", as published")[0] for note in notes] == [said] * bool(said)


def test_tables_in_markdown_and_latex() -> None:
    table = HumanTable(
        header=("policy", "mean JCT"),
        units=("", "h"),
        cells=(("a|b_c", "1.50"), ("50 % & $", "2.00")),
        marks=(("", "*"), ("", "")),
    )
    assert table.to_markdown().splitlines() == [
        "| policy | mean JCT (h) |",
        "| --- | ---: |",
        r"| a\|b_c | 1.50\* |",
        "| 50 % & $ | 2.00 |",
        "",
        r"\* best, by more than noise. JCT: completion minus arrival.",
    ]
    assert table.to_latex().splitlines() == [
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"policy & mean JCT \\",
        r" & h \\",
        r"\midrule",
        r"a|b\_c & 1.50* \\",
        r"50 \% \& \$ & 2.00 \\",
        r"\bottomrule",
        r"\end{tabular}",
        "* best, by more than noise. JCT: completion minus arrival.",
    ]


def test_axes_say_where_they_are_also_in_a_part_of_a_figure() -> None:
    figure = new_figure(8, 4)
    parts: Any = figure.subfigures(1, 2)  # an array of them
    for each in parts:
        each.subplots().plot([1, 2], [3, 4])
    drawn = inline_svg(figure, "x")
    told = [box.split() for box in re.findall(r'data-box="([^"]*)"', drawn)]
    inside = r'<rect x="([^"]*)" y="([^"]*)" width="([^"]*)" height="([^"]*)"'
    clips = sorted({tuple(map(float, each)) for each in re.findall(inside, drawn)})
    assert len(clips) == len(told) == 2
    for box, clip in zip(told, clips, strict=True):
        assert list(map(float, box)) == pytest.approx(clip, abs=0.01)
