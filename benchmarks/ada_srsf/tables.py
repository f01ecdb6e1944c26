"""Ada-SRSF's evaluation: placements (Table IV), gates (Table V) and kappa, over many job sets.

``python -m benchmarks.ada_srsf.tables`` draws job sets by the description in Wang et al.,
"Communication Contention Aware Scheduling of Multiple Deep Learning Training Jobs", section 5, and
runs every combination of a placement and a gate on each. Sets differ by more than most of the ways
compared, so ratios are paired by set and come with 95 % intervals; criteria are those of the file
of claims, `python -m benchmarks.papers --claims ada_srsf`.

``--with-released-defect`` emulates the double counting of the released simulator, in which AdaDUAL
moves bytes by asking for them (see `benchmarks.ada_srsf.released_engine`). All runs have its
settings then (see `benchmarks.ada_srsf.released_points`) and are as short as there, a hundredth;
AdaDUAL runs without the defect, too. It shows where the figures of the paper come from, and is
nothing to compare with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from apportion.report.series import distribution
from apportion.report.style import line_styles
from benchmarks.ada_srsf.released_points import RELEASED
from benchmarks.ada_srsf.runs import STORE, asked, in_words, means, options_with_sets, play, ratio
from benchmarks.experiment import claimed, drawing, parser, run_all, verdict
from benchmarks.papers.claims import Figure
from benchmarks.reporting import machine, show, write_csv

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

SETS, QUICK_SETS = 20, 2
WITHIN_SD = 2
"""With the defect, a mean of the paper, of its one set, is explained so many deviations away."""

GATES_DIFFER_S = 1000.0
"""Below so many seconds the distributions of all gates are the same line."""

SHORT = 0.01
"""Length of the released runs: a hundredth of the text's."""

LWF, FIRST, LIST, RANDOM = "lwf_1", "first_fit", "list_scheduling", "random"
ADA, WRITTEN, ONE, TWO, THREE = (
    *("ada_dual", "ada_dual_as_written"),
    *(f"at_most_{n}" for n in (1, 2, 3)),
)
GATES = (("SRSF(1)", ONE), ("SRSF(2)", TWO), ("SRSF(3)", THREE))
KAPPAS = ("lwf_2", "lwf_4", "lwf_8")
Way = tuple[str, str]
TABLE_IV: tuple[Way, ...] = ((RANDOM, ADA), (FIRST, ADA), (LIST, ADA), (LWF, ADA))
TABLE_V: tuple[Way, ...] = ((LWF, ONE), (LWF, TWO), (LWF, THREE), (LWF, WRITTEN))
KAPPA: tuple[Way, ...] = tuple((name, ADA) for name in KAPPAS)

# Tables IV and V: utilization %, mean, median and 95th percentile of completion times, seconds.
PAPER: dict[Way, tuple[float, float, float, float]] = {
    (RANDOM, ADA): (19.52, 2881.6, 680.3, 8910.9),
    (FIRST, ADA): (26.76, 1921.1, 766.1, 6224.6),
    (LIST, ADA): (25.14, 2282.41, 749.9, 7224.9),
    (LWF, ADA): (42.78, 1098.57, 487.2, 4024.0),
    (LWF, ONE): (30.65, 1374.84, 459.0, 6283.1),
    (LWF, TWO): (25.95, 1734.74, 477.0, 7658.6),
    (LWF, THREE): (25.14, 1750.9, 520.7, 7578.7),
}

PAIRS: tuple[tuple[Way, Way], ...] = (
    *(((LWF, ADA), (FIRST, ADA)), ((FIRST, ADA), (LIST, ADA)), ((LIST, ADA), (RANDOM, ADA))),
    *(((LWF, ADA), (LIST, ADA)), ((LWF, ADA), (RANDOM, ADA))),
    *(((LWF, ADA), (LWF, gate)) for gate in (ONE, TWO, THREE)),
    ((LWF, WRITTEN), (LWF, ONE)),
    *(((LWF, ONE), (LWF, TWO)), ((LWF, TWO), (LWF, THREE))),
    *(((LWF, ADA), (name, ADA)) for name in KAPPAS),
)


def main() -> None:
    """Run all ways on all sets; print Tables IV and V beside the paper's, ratios and verdicts."""
    options = _options()
    defect = options.with_released_defect
    print(f"Placements and gates on contended links, on {machine()}")
    runs = run_all(play, _settings(options), options, STORE)
    if defect:
        print("WITH THE RELEASED DEFECT: AdaDUAL moves bytes by asking for them. Not a result.")
        runs.loc[runs["defect"], "gate"] = ADA
    print(
        f"160 jobs on 16 servers of 4 GPUs of 32 GB, {options.sets} job sets; seconds, means over "
        f"sets; sd: of the mean completion time, between sets. In brackets: Tables IV and V."
    )
    show(_beside_paper(means(runs, ["placement", "gate"])), digits=4)
    print("\nMean completion times of one over another: geometric mean (95 % interval), sets won.")
    ratios = _ratios(runs)
    show(ratios[["one", "other", "ours", "paper"]])
    judge = _defect_verdicts if defect else _verdicts
    verdicts = [] if options.quick or options.sets < 2 else judge(runs, ratios)
    name = "ada_srsf_defect" if defect else "ada_srsf_tables"
    write_csv(runs, options.out, f"{name}_runs")
    write_csv(ratios, options.out, f"{name}_ratios")
    write_csv(pd.DataFrame(verdicts), options.out, f"{name}_verdicts")
    _plot(runs, options.out, name)


def _options() -> argparse.Namespace:
    text = f"{QUICK_SETS} sets of a hundredth of the length"
    what = parser("ada_srsf.tables", "Placements and gates on contended links.", text)
    what.add_argument(
        "--with-released-defect",
        action="store_true",
        help="emulate the double counting of the released simulator",
    )
    return options_with_sets(what, SETS, QUICK_SETS)


def _settings(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the runs: AdaDUAL checks all, but as written if the released code is emulated."""
    defect, sets = options.with_released_defect, range(options.sets)
    ways = (*TABLE_IV, *TABLE_V, *KAPPA)
    if not defect:
        scale = SHORT if options.quick else 1.0
        return [asked(number, *way, scale=scale) for number in sets for way in ways]
    emulated = [(placement, WRITTEN) for placement, gate in ways if gate == ADA]
    return [
        asked(number, *way, scale=SHORT, defect=wrong, point=RELEASED)
        for number in sets
        for wrong, some in ((True, emulated), (False, TABLE_V))
        for way in some
    ]


def _beside_paper(table: pd.DataFrame) -> pd.DataFrame:
    """Write the paper's figures in brackets behind ours."""
    rows: list[dict[str, Any]] = []
    for row in table.to_dict("records"):
        paper = PAPER.get((row["placement"], row["gate"]))
        cells: dict[str, Any] = {"placement": row["placement"], "gate": row["gate"]}
        for place, name in enumerate(("util %", "avg", "median", "p95")):
            said = "" if paper is None else f" ({paper[place]:.4g})"
            cells[name] = f"{row[name]:.4g}{said}"
        rows.append(cells | {"sd": row["sd"]})
    return pd.DataFrame(rows)


def _ratios(runs: pd.DataFrame) -> pd.DataFrame:
    """Return every pair that was run, ours and the paper's."""
    there = set(zip(runs["placement"], runs["gate"], strict=True))
    rows = []
    for one, other in PAIRS:
        if not {one, other} <= there:
            continue
        found = ratio(runs, _named(one), _named(other))
        paper = PAPER[one][1] / PAPER[other][1] if {one, other} <= set(PAPER) else None
        names = {"one": " ".join(one), "other": " ".join(other)}
        given = {"ours": in_words(found), "paper": paper}
        rows.append({**names, **given, **found._asdict()})
    return pd.DataFrame(rows)


def _named(way: Way) -> dict[str, Any]:
    return dict(zip(("placement", "gate"), way, strict=True))


def _verdicts(runs: pd.DataFrame, ratios: pd.DataFrame) -> list[dict[str, str]]:
    """Judge the claims of the paper."""
    pair, best = _pairs(ratios), (LWF, ADA)

    def over(one: Way, other: Way, case: str = "") -> Figure:
        row = pair[one, other]
        return Figure(case, row["estimate"], row["low"], row["high"])

    def over_paper(other: Way) -> Figure:
        row = pair[best, other]
        return Figure(other[0], *(row[end] / row["paper"] for end in ("estimate", "low", "high")))

    def of_gates(ours: pd.Series, place: int) -> list[Figure]:
        return [Figure(n, float(ours[LWF, gate]) / PAPER[LWF, gate][place]) for n, gate in GATES]

    table = means(runs, ["placement", "gate"]).set_index(["placement", "gate"])
    use, avg, median, tail = (table[name] for name in ("util %", "avg", "median", "p95"))
    below = float(runs[(runs["placement"] == LWF) & (runs["gate"] == ADA)]["below_5000_pct"].mean())
    found = {
        "lwf-first-fit": [over(best, (FIRST, ADA))],
        "first-fit-list": [over((FIRST, ADA), (LIST, ADA))],
        "list-random": [over((LIST, ADA), (RANDOM, ADA))],
        "lwf-others": [over_paper((name, ADA)) for name in (LIST, RANDOM)],
        "table4": [Figure(way[0], float(avg[way]) / PAPER[way][1]) for way in TABLE_IV],
        "table4-median": [Figure(way[0], float(median[way]) / PAPER[way][2]) for way in TABLE_IV],
        "table4-p95": [Figure(way[0], float(tail[way]) / PAPER[way][3]) for way in TABLE_IV],
        "table5": of_gates(avg, 1),
        "table5-median": of_gates(median, 2),
        "table5-p95": of_gates(tail, 3),
        "kappa": [over(best, (name, ADA), name) for name in KAPPAS],
        "use": [
            Figure(n, float(use[best] / use[n, ADA]) * PAPER[n, ADA][0] / PAPER[best][0])
            for n in (RANDOM, FIRST, LIST)
        ],
        "gain": [over(best, (LWF, ONE))],
        "gain-p95": [Figure("", float(tail[best] / tail[LWF, ONE]))],
        "gain-2": [over(best, (LWF, TWO))],
        "gain-3": [over(best, (LWF, THREE))],
        "use-gates": [Figure("", float(use[best] / use[LWF, ONE]))],
        "use-gates-others": [
            Figure(name, float(use[best] / use[LWF, gate])) for name, gate in GATES[1:]
        ],
        "gates-order": [
            over((LWF, ONE), (LWF, TWO), "1 / 2"),
            over((LWF, TWO), (LWF, THREE), "2 / 3"),
        ],
        "tail": [Figure("", below)],
    }
    return [claimed("ada_srsf", name, figures) for name, figures in found.items()]


def _pairs(ratios: pd.DataFrame) -> dict[tuple[Way, Way], dict[Any, Any]]:
    """Return the rows of `_ratios` by the two ways."""
    names = {" ".join(way): way for pair in PAIRS for way in pair}
    rows = ratios.to_dict("records")
    return {(names[row["one"]], names[row["other"]]): row for row in rows}


def _defect_verdicts(runs: pd.DataFrame, ratios: pd.DataFrame) -> list[dict[str, str]]:
    """Judge whether the defect explains the figures: means within two deviations of sets, ratios
    within the least and the most of the sets."""
    found = []
    table = means(runs, ["placement", "gate"]).set_index(["placement", "gate"])
    for way in TABLE_IV:
        ours, sd = float(table["avg"][way]), float(table["sd"][way])
        claim = f"with the defect, Table IV's mean of {way[0]}"
        evidence = f"{ours:.0f}, sd {sd:.0f}; the paper {PAPER[way][1]:.0f}"
        found.append(verdict(claim, abs(ours - PAPER[way][1]) <= WITHIN_SD * sd, evidence))
    row = _pairs(ratios)[(LWF, ADA), (LWF, ONE)]
    claim = "with the defect, the gain of 20.1 % over SRSF(1)"
    found.append(verdict(claim, row["least"] <= row["paper"] <= row["most"], row["ours"]))
    return found


def _plot(runs: pd.DataFrame, out: Path | None, name: str) -> None:
    """Draw the distributions of completion times, of all sets together: gates, their upper part."""
    with drawing(out, name, width=11.0, height=4.2) as figure:
        if figure is None:
            return
        left, right = figure.subplots(1, 2)
        gates = [(LWF, gate) for gate in (ADA, ONE, TWO, THREE)]
        for axes, ways, place in ((left, TABLE_IV, 0), (right, gates, 1)):
            styles = line_styles([way[place] for way in ways])
            longest_s, least = 0.0, 1.0
            for way in ways:
                chosen = runs[(runs["placement"] == way[0]) & (runs["gate"] == way[1])]
                jct_s = pd.Series(" ".join(chosen["jct_s"]).split()).to_numpy(float)
                values, shares = distribution(jct_s)
                longest_s = max(longest_s, values[-1])
                least = min(least, float((jct_s < GATES_DIFFER_S).mean()))
                axes.step(values, shares, where="post", label=way[place], **styles[way[place]])
            axes.set(xscale="log", xlabel="completion time (s, log scale)")
            axes.set_ylabel("share of jobs (%)")
            axes.xaxis.set_major_formatter(lambda seconds, _: f"{seconds:g}")
            axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g}")
            axes.legend(loc="lower right")
        with_defect = " with the released defect" if runs["defect"].any() else ""
        left.set(title=f"Placements, AdaDUAL{with_defect}", ylim=(0, 1.02))
        right.set(title="Gates, LWF-1", xlim=(GATES_DIFFER_S, longest_s), ylim=(least, 1))
        right.set_xticks([1000, 2000, 5000, 10000])
        right.minorticks_off()


if __name__ == "__main__":
    main()
