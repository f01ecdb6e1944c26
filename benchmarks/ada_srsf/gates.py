"""Gates against each other on contended links, and what eta, memory and jitter change.

``python -m benchmarks.ada_srsf.gates`` runs SRSF(n), AdaDUAL as written and with all conflicts
checked, all with LWF-1, on job sets of the full length; and again, a hundredth as long, with other
eta, less memory and jittered arrivals. Ratios are paired by job set. Job sets are those of
`benchmarks.ada_srsf.tables`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from benchmarks.ada_srsf.runs import (
    ETA_S,
    MEMORY_GB,
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
    from collections.abc import Sequence

SETS, QUICK_SETS = 20, 1
SHORT, SHORTEST = 0.01, 0.001
ONE, TWO, THREE = (f"at_most_{n}" for n in (1, 2, 3))
ADA, WRITTEN = "ada_dual", "ada_dual_as_written"
GATES = (ONE, TWO, THREE, ADA, WRITTEN)
PAIRS = (
    *((ADA, ONE), (WRITTEN, ONE)),
    *((ADA, TWO), (ONE, TWO), (TWO, THREE)),
)

ETA = "eta, s/byte"
Setting = tuple[float, float]
"""Memory of a GPU, GB, and eta."""
LESS_MEMORY: Setting = (16.0, ETA_S)
OTHERS: tuple[Setting, ...] = (
    LESS_MEMORY,
    *((MEMORY_GB, eta) for eta in (0.0, 5e-11, 5e-10, 1e-9)),
)
COMPARED = (ONE, TWO, ADA)
JITTERS = 5


def main() -> None:
    """Run all gates; print ratios, sensitivity, jitter and verdicts."""
    options = _options()
    print(f"Gates on contended links, on {machine()}")
    scale = SHORT if options.quick else 1.0
    sets = range(options.sets)
    runs = run_all(
        play, [asked(n, gate=gate, scale=scale) for n in sets for gate in GATES], options, STORE
    )
    print(f"{options.sets} job sets; seconds, means over sets.")
    show(means(runs, ["gate"]), digits=4)
    print("\nMean completion time of one over another: geometric mean (95 % interval), sets won.")
    pairs = _pairs(runs)
    show(pairs[["one", "other", "ours", "verdict"]])
    other = _over_one(options, OTHERS, COMPARED, SHORT)
    jittered = _jitter(options)
    verdicts = [] if options.quick else _verdicts(other)
    write_csv(runs, options.out, "ada_srsf_gates_runs")
    write_csv(pairs, options.out, "ada_srsf_gates", bars=True)
    write_csv(other, options.out, "ada_srsf_gates_sensitivity")
    write_csv(jittered, options.out, "ada_srsf_gates_jitter")
    write_csv(pd.DataFrame(verdicts), options.out, "ada_srsf_gates_verdicts")


def _options() -> argparse.Namespace:
    text = f"{QUICK_SETS} set of a hundredth of the length"
    what = parser("ada_srsf.gates", "Gates on contended links.", text)
    return options_with_sets(what, SETS, QUICK_SETS)


def _pairs(runs: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for one, other in PAIRS:
        found = ratio(runs, {"gate": one}, {"gate": other})
        row = {"one": one, "other": other, "ours": in_words(found), "verdict": who_wins(found)}
        rows.append({**row, **found._asdict()})
    return pd.DataFrame(rows)


def _over_one(
    options: argparse.Namespace, places: Sequence[Setting], gates: Sequence[str], scale: float
) -> pd.DataFrame:
    """Run gates with other memory and eta, and return ratios to SRSF(1) for each."""
    settings = [
        asked(number, gate=gate, scale=scale, memory_gb=memory_gb, eta=eta)
        for memory_gb, eta in (places[:1] if options.quick else places)
        for number in range(options.sets)
        for gate in gates
    ]
    runs = run_all(play, settings, options, STORE)
    rows: list[dict[str, Any]] = []
    for given, chosen in runs.groupby(["memory_gb", "eta"], sort=False):
        row: dict[str, Any] = dict(zip(("GB", ETA), given, strict=True))
        for gate in gates[1:]:
            found = ratio(chosen, {"gate": gate}, {"gate": ONE})
            row |= {gate: f"{in_words(found)}: {who_wins(found)}", f"{gate} low": found.low}
            row |= {f"{gate} ratio": found.estimate, f"{gate} high": found.high}
        rows.append(row)
    table = pd.DataFrame(rows)
    print(f"\nOver SRSF(1), runs of {scale:g} of the length, {options.sets} sets:")
    show(table[["GB", ETA, *gates[1:]]])
    return table


def _jitter(options: argparse.Namespace) -> pd.DataFrame:
    """Let arrivals move by less than 0.1 s, and return how far one run can be off."""
    sets = range(options.sets)
    repeats = range(1, 1 + (2 if options.quick else JITTERS))
    gates = (ONE, ADA)
    settings = [
        asked(number, gate=gate, scale=SHORT, jitter=jitter)
        for number in sets
        for jitter in repeats
        for gate in gates
    ]
    runs = run_all(play, settings, options, STORE)
    spread = runs.groupby(["gate", "set"], sort=False)["mean_s"].agg(["mean", "std"])
    table = (100 * spread["std"] / spread["mean"]).rename("sd, %").reset_index()
    shown = table.groupby("gate", sort=False)["sd, %"].agg(["min", "median", "max"]).reset_index()
    print(
        f"\nArrivals moved by less than 0.1 s, {len(repeats)} times: standard deviation of the "
        f"mean completion time of one set, %, over {len(sets)} sets"
    )
    show(shown)
    averaged = runs.groupby(["set", "gate"])["mean_s"].mean().reset_index().assign(jitter=0)
    found = ratio(averaged, {"gate": ADA}, {"gate": ONE})
    print(f"{ADA} over {ONE}, jitter averaged out: {in_words(found)}")
    return table.assign(**{f"{ADA} over {ONE}": in_words(found)})


def _verdicts(other: pd.DataFrame) -> list[dict[str, str]]:
    """Judge by the intervals of ratios."""
    best = other[f"{ADA} low"].min()
    claim = "some eta or memory lets AdaDUAL save 20 % of SRSF(1)"
    return [verdict(claim, best <= 0.8, f"lowest end of an interval {best:.3f}")]


if __name__ == "__main__":
    main()
