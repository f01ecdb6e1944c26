"""How much hangs on each point in which the text of Ada-SRSF and its released code differ.

``python -m benchmarks.ada_srsf.points`` switches them one by one (see
`benchmarks.ada_srsf.released_points`) on the job sets of `benchmarks.ada_srsf.tables`,
at full length: memory is 32 GB, eta that of the code, and all else is as in the text,
but for the point. Ratios are paired by job set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from benchmarks.ada_srsf.released_points import POINTS, RELEASED, TEXT
from benchmarks.ada_srsf.runs import (
    STORE,
    asked,
    in_words,
    means,
    options_with_sets,
    play,
    ratio,
    who_wins,
)
from benchmarks.experiment import parser, run_all, verdict
from benchmarks.reporting import machine, show, write_csv

if TYPE_CHECKING:
    import argparse

SETS, QUICK_SETS = 20, 1
SHORT = 0.01
ONE, ADA = "at_most_1", "ada_dual"
GATES = (ONE, ADA)

INDEPENDENT_S = 1594.0
"""Mean completion time under LWF-1 and SRSF(1), 20 job sets, as another simulator has it that was
written from the released code and gives its completion times without the defect."""


def main() -> None:
    """Run two gates at every point; print ratios to the text, and what decides."""
    options = _options()
    print(f"Points in which text and code differ, on {machine()}")
    scale = SHORT if options.quick else 1.0
    settings = [
        asked(number, gate=gate, scale=scale, point=point)
        for point in POINTS
        for gate in GATES
        for number in range(options.sets)
    ]
    runs = run_all(play, settings, options, STORE)
    runs["point"] = runs["point"].fillna(TEXT)
    table = pd.DataFrame([_row(runs, point) for point in POINTS])
    print(f"{options.sets} job sets; seconds, means over sets, of SRSF(1); and ratios.")
    show(table, digits=4)
    verdicts = [] if options.quick else _verdicts(table)
    write_csv(runs, options.out, "ada_srsf_points_runs")
    write_csv(table, options.out, "ada_srsf_points", bars=True)
    write_csv(pd.DataFrame(verdicts), options.out, "ada_srsf_points_verdicts")


def _options() -> argparse.Namespace:
    text = f"{QUICK_SETS} set of a hundredth of the length"
    what = parser("ada_srsf.points", "Where the text of Ada-SRSF and its code differ.", text)
    return options_with_sets(what, SETS, QUICK_SETS)


def _row(runs: pd.DataFrame, point: str) -> dict[str, Any]:
    """Return the completion times of SRSF(1) at a point, over the text's, and those of AdaDUAL."""
    here = runs[runs["point"] == point]
    of_all = means(here, ["placement", "gate"])
    (of_one,) = of_all[of_all["gate"] == ONE].to_dict("records")
    both = ({"gate": ONE, "point": each} for each in (point, TEXT))
    over_text = ratio(runs, *both)
    return {
        "point": point,
        **{figure: float(of_one[figure]) for figure in ("avg", "sd")},
        "SRSF(1) over the text's": in_words(over_text),
        "verdict": who_wins(over_text),
        "Ada-SRSF / SRSF(1)": in_words(ratio(here, {"gate": ADA}, {"gate": ONE})),
    }


def _verdicts(table: pd.DataFrame) -> list[dict[str, str]]:
    """Judge whether the code's points explain what another simulator has (within a deviation)."""
    rows = table.set_index("point")
    found = []
    for point in (TEXT, RELEASED):
        avg, sd = float(rows["avg"][point]), float(rows["sd"][point])
        error = sd * (2 / SETS) ** 0.5
        claim = f"{point}: the {INDEPENDENT_S:.0f} s of another simulator, within two errors"
        evidence = f"{avg:.0f} s, standard error of the difference {error:.0f}"
        found.append(verdict(claim, abs(avg - INDEPENDENT_S) <= 2 * error, evidence))
    return found


if __name__ == "__main__":
    main()
