"""What DeepBoot's -38 % is made of: clusters kept apart with the fewest GPUs that serve as well.

``python -m benchmarks.elastic.fair_baselines``: jobs, GPUs and requests of
`benchmarks.elastic.deepboot`, three loads, requests by day and night or at one rate all day. For
every seed the pooled cluster tells the share of requests that end within their SLO; the fewest
GPUs that serve as well by themselves, of the same requests, are found by bisection. From `pollux`
on 32 of 64 GPUs to `deepboot` on all of them it is four steps, each a ratio of mean completion
times:

rules: `deepboot` in place of `pollux`, both on the 32 GPUs that do not serve
idle GPUs: the fewest that serve as well stand apart, in place of 32
loans: training may have those of them that are idle
pooling: all GPUs serve and train

``--slo-factors 2 3 5`` has an SLO of so many times the seconds of a request, 3 by default. Nothing
that is decided hangs on it, so a cluster is simulated once and judged by each.
``--gpus 16`` has a quarter of GPUs, jobs and loads, each an even part of the same draw.
Requests change nothing for jobs on a cluster of their own, and jobs nothing for requests: apart,
jobs are trained and requests served each once. Ratios are paired by seed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd

import apportion as ap
from apportion.sim.inference.serving import Serving
from apportion.statistics import to_markdown
from benchmarks.elastic.deepboot import HOUR_S, LENGTH_H, requests_of
from benchmarks.elastic.runs import POLLUX, as_figure, figures, in_words, paired, workload_of
from benchmarks.experiment import claimed, parser, run_all
from benchmarks.reporting import machine, write_csv

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence
    from pathlib import Path

LOADS = (0.29, 2.9, 8.7)
"""GPUs of 64 that requests keep busy: small, middle and large load of DeepBoot's simulator."""

ARRIVALS = ("diurnal", "poisson")
CASE = ["arrivals", "load", "slo"]
COLD_START_S = 6.0
SLO_FACTOR = 3.0
"""Of the seconds of a request, within which it should end."""

ROUNDING = 1e-9
"""Part of a time by which sums may be rounded."""

STEPS = {
    "all": ("pooled", "pollux apart"),
    "rules": ("apart", "pollux apart"),
    "idle GPUs": ("apart, fewest", "apart"),
    "loans": ("loans", "apart, fewest"),
    "pooling": ("pooled", "loans"),
    "loans and pooling": ("pooled", "apart, fewest"),
}
"""Way over way; the second to the fifth multiply to the first."""

JUDGED = {
    "jct-fair": ("loans and pooling", {"2.9 GPUs": (2.9, "diurnal")}),
    "high-load": ("all", {"by day and night": (8.7, "diurnal"), "Poisson": (8.7, "poisson")}),
}
"""Claims, the step that each is of, and in which cases of load and arrivals."""

POOLED: dict[str, dict[str, Any]] = {
    "pooled": {},
    "pooled, early binding": {"binding": "early"},
    "pooled, protect x 8": {"protect": 8.0},
    "pooled, protect x 0.25": {"protect": 0.25},
}


def play(settings: Mapping[str, Any], data: Path | None) -> dict[str, Any]:
    """Train beside requests, train alone, or look for the fewest GPUs that serve."""
    if settings["way"] == "served":
        return _fewest(settings)
    workload = workload_of({"workload": 1, **settings}, data)
    every = max(len(workload) // int(settings["jobs"]), 1)
    workload = replace(workload, jobs=workload.jobs.iloc[::every])
    gpus, serving = int(settings["gpus"]), int(settings["serving"])
    if settings["way"].endswith("apart"):
        policy = "pollux" if settings["way"].startswith("pollux") else "deepboot"
        alone = ap.Configurations(restart="afe" if policy == "deepboot" else "stop_resume")
        here = {"t4": gpus - serving}
        return figures(ap.simulate(policy, workload, here, mechanism=alone), workload)
    requests = _requests(settings, LENGTH_H)
    beside = Serving(
        requests,
        gpus=serving or "pooled",
        cold_start_s=COLD_START_S,
        **POOLED.get(settings["way"], {}),
    )
    how = ap.Configurations(serving=beside, restart="afe")
    run = ap.simulate("deepboot", workload, {"t4": gpus}, mechanism=how, seed=settings["seed"])
    served = run.tables["requests"]
    during = served[served["arrival_s"] <= run.jobs["completion_s"].max()]
    return {**_met(during, requests, settings["slos"]), **figures(run, workload)}


def _requests(settings: Mapping[str, Any], hours: float) -> pd.DataFrame:
    load, seed = float(settings["load"]), int(settings["seed"])
    drawn = requests_of(load, seed, LENGTH_H, settings["arrivals"])
    return drawn[drawn["arrival_s"] <= hours * HOUR_S].reset_index(drop=True)


def _met(served: pd.DataFrame, requests: pd.DataFrame, factors: str) -> dict[str, float]:
    """Return the share of requests that end within so many times their seconds, by factor."""
    duration_s = requests.loc[served.index, "duration_s"]
    latest = {name: served["arrival_s"] + float(name) * duration_s for name in factors.split()}
    return {
        f"SLO met {name}": float((served["finish_s"] <= latest_s * (1 + ROUNDING)).mean())
        for name, latest_s in latest.items()
    }


def _fewest(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Find the fewest GPUs that meet the share of SLO, between 0 and half of all."""
    asked = _requests(settings, float(settings["hours"]))
    asked["slo_s"] = float(settings["slo"]) * asked["duration_s"]
    found: dict[int, float] = {}

    def met(gpus: int) -> float:
        if gpus not in found:
            found[gpus] = ap.serve(asked, gpus, cold_start_s=COLD_START_S).slo_attainment
        return found[gpus]

    low, high = 0, int(settings["gpus"]) // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if met(middle) >= settings["share"] else (middle, high)
    return {"serving": high, "SLO met": met(high), "SLO met with one less": met(max(high - 1, 1))}


def of_seed(seed: int, args: argparse.Namespace) -> pd.DataFrame:
    """Run all ways of a seed: pooled, then who serves as well, then what stands apart so."""
    shape = {"jobs": 6 if args.quick else args.gpus * 5 // 2, "gpus": args.gpus}
    plain = {"seed": seed, "load": 0.0, "arrivals": "", "serving": 0, **shape}
    cases = [
        {**plain, "load": load * args.gpus / 64, "arrivals": arrivals}
        for load in args.loads
        for arrivals in args.arrivals
    ]
    names = [f"{factor:g}" for factor in args.slo_factors]
    slos = {"slos": " ".join(names)}
    ways = [{**case, **slos, "way": way} for case in cases for way in args.pooled]
    pooled = _by_slo(_ran(ways, args), names)
    least = pooled[pooled["way"] == "pooled"].to_dict("records")
    as_well = [
        {name: row[name] for name in (*plain, "slo")}
        | {"way": "served", "share": row["SLO met"], "hours": row["makespan h"]}
        for row in least
    ]
    served = _ran(as_well, args)
    fewest = served[[*CASE, "serving"]]
    few = fewest[["load", "arrivals", "serving"]].drop_duplicates().to_dict("records")
    lent = [plain | slos | {"way": "loans"} | {str(key): each[key] for key in each} for each in few]
    loans = _by_slo(_ran(lent, args), names)
    apart = sorted({*map(int, fewest["serving"]), shape["gpus"] // 2})
    alone = [{**plain, "way": "apart", "serving": gpus} for gpus in apart]
    alone.append({**plain, "way": "pollux apart", "serving": shape["gpus"] // 2})
    runs = [pooled, served, loans.merge(fewest), _ran(alone, args)]
    return pd.concat(runs, ignore_index=True)


def _by_slo(runs: pd.DataFrame, factors: Sequence[str]) -> pd.DataFrame:
    """Repeat every run for each factor, with the share of requests that meets it."""
    each = [
        runs.assign(slo=float(name), **{"SLO met": runs[f"SLO met {name}"]}) for name in factors
    ]
    return pd.concat(each, ignore_index=True)


def _ran(settings: list[dict[str, Any]], args: argparse.Namespace) -> pd.DataFrame:
    found = run_all(play, settings, args, "elastic_fair_baselines")
    args.fresh = False
    return found


def by_case(runs: pd.DataFrame) -> pd.DataFrame:
    """Repeat what stands apart in every case of load and arrivals, with the SLO that it meets."""
    rows = []
    alone = runs[runs["arrivals"] == ""]
    for _, served in runs[runs["way"] == "served"].iterrows():
        case = {**served[["load", "arrivals", "slo"]], "workload": 1}
        mine = alone[alone["seed"] == served["seed"]]
        half = mine[mine["serving"] == mine["serving"].max()]
        fewest = mine[(mine["way"] == "apart") & (mine["serving"] == served["serving"])]
        named = [*half.to_dict("records"), {**fewest.iloc[0].to_dict(), "way": "apart, fewest"}]
        named[-1]["SLO met"] = served["SLO met"]
        rows += [{**row, **case} for row in named]
    beside = runs[(runs["arrivals"] != "") & (runs["way"] != "served")].assign(workload=1)
    return pd.concat([beside, pd.DataFrame(rows)], ignore_index=True)


def steps_of(cases: pd.DataFrame) -> pd.DataFrame:
    """Return the ratio of every step, by load and arrivals."""
    rows = []
    for key, here in cases.groupby(CASE, sort=False):
        row: dict[str, Any] = dict(zip(CASE, key, strict=True))
        for step, (one, other) in STEPS.items():
            row[step] = in_words(paired(here, {"way": one}, {"way": other}))
        rows.append(row)
    return pd.DataFrame(rows)


def judge(cases: pd.DataFrame) -> None:
    """Judge the claims whose cases were run."""
    for name, (step, of_case) in JUDGED.items():
        one, other = STEPS[step]
        figures = []
        for case, (load, arrivals) in of_case.items():
            here = cases[(cases["load"] == load) & (cases["arrivals"] == arrivals)]
            here = here[here["slo"] == SLO_FACTOR]
            if len(here):
                figures.append(as_figure(paired(here, {"way": one}, {"way": other}), case))
        if len(figures) == len(of_case):
            claimed("deepboot", name, figures)


def main() -> None:
    """Run and print."""
    first = (__doc__ or "").partition("\n")[0]
    options = parser("elastic.fair_baselines", first, "one seed, one load, generated jobs")
    options.set_defaults(data=POLLUX)
    options.add_argument("--seeds", type=int, default=10)
    options.add_argument("--gpus", type=int, default=64, choices=(16, 32, 64))
    options.add_argument("--loads", nargs="+", type=float, default=list(LOADS), help="of 64 GPUs")
    options.add_argument("--arrivals", nargs="+", default=list(ARRIVALS), choices=ARRIVALS)
    options.add_argument("--slo-factors", nargs="+", type=float, default=[SLO_FACTOR], metavar="F")
    options.add_argument("--pooled", nargs="+", default=["pooled"], choices=list(POOLED))
    args = options.parse_args()
    if args.quick:
        args.seeds, args.gpus, args.loads, args.arrivals = 1, 16, [1.2], ["poisson"]
    if args.quick or not args.data.is_dir():
        print("Jobs are generated.")
        args.data = args.data / "nowhere"
    runs = pd.concat([of_seed(seed, args) for seed in range(args.seeds)], ignore_index=True)
    cases = by_case(runs)
    shown = ["serving", "SLO met", "mean h", "p99 h", "restarts", "paused s"]
    means = cases.groupby([*CASE, "way"], sort=False)[shown].mean().reset_index()
    for name, table in (("means", means), ("steps", steps_of(cases))):
        print(f"\n{to_markdown(table)}")
        write_csv(table, args.out, f"elastic_fair_baselines_{name}", bars=True)
    if args.gpus == 64 and args.data.is_dir():
        judge(cases)
    print(machine())


if __name__ == "__main__":
    main()
