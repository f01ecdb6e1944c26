"""DeepBoot beside requests by day and night, against clusters that are kept apart and other rules.

``python -m benchmarks.elastic.deepboot`` trains the jobs of Pollux's workload 1, drawn anew with
replacement, on 64 GPUs in machines of 4, beside generated requests: two harmonics of the day,
noise, spikes, six services, 5 s each, 2.9 GPUs busy on average, the middle load of DeepBoot's
simulator. Where a cluster is parted, half of it serves, as there, and a restart takes what it does
there, by application. Every seed draws jobs and requests anew and has the jobs begin at another
hour of the day, the same for all ways. Without the data jobs are generated. ``--load`` chooses
another load, ``--parts`` the ways and the sweeps of protect time and of what a restart costs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import apportion as ap
from apportion.sim.inference import Bursts, DiurnalRate, generate_requests
from apportion.sim.inference.serving import Serving
from apportion.sim.inference.tables import request_figures
from apportion.statistics import to_markdown
from benchmarks.elastic.runs import POLLUX, as_figure, figures, in_words, paired, workload_of
from benchmarks.experiment import claimed, parser, run_all
from benchmarks.reporting import machine, write_csv

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping
    from pathlib import Path

    from apportion.statistics import Paired

HOUR_S = 3600.0
LENGTH_H = 36
"""How long requests come: longer than all but the slowest jobs train."""

REQUEST_S = 5.0
FEWEST = 14
"""GPUs that serve apart and meet the SLO as often as where all are pooled, at 2.9 that are busy."""

AFE, APART = {"restart": "afe"}, {"lending": False}
Way = tuple[str, dict[str, Any], dict[str, Any]]

WAYS: dict[str, Way] = {
    "deepboot, pooled": ("deepboot", AFE, {"gpus": "pooled"}),
    "deepboot, apart": ("deepboot", AFE, APART),
    "pollux, apart": ("pollux", {}, APART),
    "tiresias, apart": ("tiresias", {}, APART),
    "optimus, apart": ("optimus", {}, APART),
    "afs, apart": ("afs", {}, APART),
    "lyra, loans, whole servers": ("lyra", {}, {"reclaim": "whole_server"}),
    "deepboot, loans": ("deepboot", AFE, {}),
    "deepboot, loans, whole servers": ("deepboot", AFE, {"reclaim": "whole_server"}),
    "deepboot, pooled, at random": ("deepboot", AFE, {"gpus": "pooled", "reclaim": "random"}),
    "deepboot, pooled, no AFE": ("deepboot", {}, {"gpus": "pooled"}),
    "deepboot, pooled, at random, none kept": (
        "deepboot",
        AFE,
        {"gpus": "pooled", "reclaim": "random", "protect": 0.0},
    ),
}
"""Policy, settings of training, and settings of serving; half of the GPUs serve but where pooled.

DeepBoot without ATS-I is the one that is apart. Where none is kept, no GPU stays reserved for a
service after a request.
"""

FAIR: dict[str, Way] = {
    "deepboot, apart, fewest": ("deepboot", AFE, {"gpus": FEWEST, "lending": False}),
    "pollux, apart, fewest": ("pollux", {}, {"gpus": FEWEST, "lending": False}),
    "pollux, loans": ("pollux", {}, {}),
}
SERVE: dict[str, Way] = {
    f"deepboot, apart, {gpus} serve": ("deepboot", AFE, {"gpus": gpus, "lending": False})
    for gpus in (20, 24, 28)
}
PROTECT: dict[str, Way] = {
    f"protect x {times:g}": ("deepboot", AFE, {"gpus": "pooled", "protect": times})
    for times in (0.0, 0.5, 2.0, 8.0)
}
RESTARTS: dict[str, Way] = {
    f"restart {each:g} s, {how}": (
        "deepboot",
        {"restart": how, "restart_seconds": float(each), "rescale_seconds": min(each / 10, 3.0)},
        {"gpus": "pooled"},
    )
    for each in (10, 30, 100)
    for how in ("stop_resume", "afe")
}
PARTS = {"ways": WAYS, "fair": FAIR, "serve": SERVE, "protect": PROTECT, "restarts": RESTARTS}
ALL = {name: way for part in PARTS.values() for name, way in part.items()}
FEW = ("deepboot, pooled", "deepboot, apart")
PAPER = {"pollux, apart": 0.62}
"""DeepBoot's abstract: 38 % less mean completion time in simulation (32 % on its testbed) than the
scheduler that does not use idle GPUs of inference."""

POOLED = "deepboot, pooled"
JUDGED: dict[float, dict[str, Mapping[str, tuple[str, str]]]] = {
    2.9: {
        "jct": {"32 serve": (POOLED, "pollux, apart")},
        "afe": {"": (POOLED, "deepboot, pooled, no AFE")},
        "reclaim": {"": (POOLED, "deepboot, pooled, at random, none kept")},
        "lyra": {"": (POOLED, "lyra, loans, whole servers")},
        "afs": {"": (POOLED, "afs, apart")},
        "optimus": {"Optimus": (POOLED, "optimus, apart"), "Tiresias": (POOLED, "tiresias, apart")},
    }
}
"""Whose mean completion time is set beside whose for a claim, by the load."""

FIGURES = {
    "mean h": "mean h",
    "p99 h": "p99 h",
    "SLO met": "slo_attainment",
    "delay p50 s": "p50_delay_s",
    "delay p95 s": "p95_delay_s",
    "delay p99 s": "p99_delay_s",
    "nominal use": "nominal_use",
    "real use": "real_use",
    "loaned GPU-h": "loaned_gpu_hours",
    "reclaims": "reclaims",
    "restarts a job": "restarts",
    "pause a job, s": "paused s",
}


def requests_of(load: float, seed: int, hours: float, arrivals: str = "diurnal") -> pd.DataFrame:
    """Draw requests that keep `load` GPUs busy on average of a day; 0 s is another hour by seed.

    ``"poisson"`` is one rate all day, without noise and spikes.
    """
    shift_s = seed * 24 / 5 * HOUR_S
    plain, bursts = DiurnalRate(mean=load / REQUEST_S), Bursts(noise=0.2, spikes_per_day=2.0)
    rate = replace(
        plain,
        day_phase_s=plain.day_phase_s - shift_s,
        half_day_phase_s=plain.half_day_phase_s - shift_s,
    )
    if arrivals == "poisson":
        rate, bursts = replace(rate, day=0.0, half_day=0.0), Bursts()
    found: pd.DataFrame = generate_requests(
        rate,
        length_s=hours * HOUR_S,
        services=6,
        mean_duration_s=REQUEST_S,
        slo_factor=3.0,
        bursts=bursts,
        seed=seed,
    )
    return found


def play(settings: Mapping[str, Any], data: Path | None) -> dict[str, Any]:
    """Train the jobs one way; requests count as long as there are jobs."""
    policy, training, serving = ALL[settings["way"]]
    workload = workload_of(settings, data)
    seed, gpus = int(settings["seed"]), int(settings["gpus"])
    requests = requests_of(float(settings["load"]), seed, float(settings["hours"]))
    beside = Serving(requests, **{"gpus": gpus // 2, "cold_start_s": 6.0, **serving})
    how = ap.Configurations(serving=beside, **training)
    run = ap.simulate(policy, workload, {"t4": gpus}, mechanism=how, seed=seed)
    served = run.tables["requests"]
    during = served["arrival_s"] <= run.jobs["completion_s"].max()
    found = {**run.summary(), **request_figures(served[during])}
    own = {name: float(found[name]) for name in FIGURES.values() if name in found}
    return own | figures(run, workload)


def settings_of(args: argparse.Namespace) -> list[dict[str, Any]]:
    """List the runs, seed by seed."""
    shape = {"jobs": 160, "gpus": 64, "hours": LENGTH_H, "load": args.load}
    if args.quick:
        shape = {"jobs": 6, "gpus": 16, "hours": 2, "load": 1.0}
    ways = FEW if args.quick else args.ways or [w for part in args.parts for w in PARTS[part]]
    if "deepboot, pooled" not in ways:
        ways = ["deepboot, pooled", *ways]
    return [
        {"workload": 1, "seed": seed, "way": way, **shape}
        for seed in range(1 if args.quick else args.seeds)
        for way in ways
    ]


def compared(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the ratio of DeepBoot's mean completion time to that of every other way."""
    base, rows = "deepboot, pooled", []
    for way in runs["way"].unique():
        if way == base:
            continue
        found = paired(runs, {"way": base}, {"way": way})
        row = {"way": way, f"mean under {base} / under it": in_words(found)}
        rows.append(row | {"published": PAPER.get(str(way), np.nan), "": _side(found, base)})
    return pd.DataFrame(rows)


def _side(found: Paired, base: str) -> str:
    if not found.sure:
        return "no difference shown"
    return f"{'shorter' if found.estimate < 1 else 'longer'} under {base}"


def judge(runs: pd.DataFrame, load: float) -> None:
    """Judge the claims of the ways that were run, at the load that they are of."""
    of_load: dict[str, Mapping[str, tuple[str, str]]] = JUDGED.get(load, {})
    for name, cases in of_load.items():
        if {way for both in cases.values() for way in both} <= set(runs["way"]):
            figures = [
                as_figure(paired(runs, {"way": one}, {"way": other}), case)
                for case, (one, other) in cases.items()
            ]
            claimed("deepboot", name, figures)


def main() -> None:
    """Run and print."""
    purpose = (__doc__ or "").partition("\n")[0]
    options = parser("elastic.deepboot", purpose, "two hours, two ways, one seed")
    options.set_defaults(data=POLLUX)
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--load", type=float, default=2.9, help="GPUs busy with requests, mean")
    options.add_argument("--ways", nargs="+", choices=list(ALL), help="in place of parts")
    options.add_argument("--parts", nargs="+", default=["ways"], choices=list(PARTS))
    args = options.parse_args()
    if args.quick or not args.data.is_dir():
        print("Jobs are generated.")
        args.data = args.data / "nowhere"
    runs = run_all(play, settings_of(args), args, "elastic_deepboot")
    known = {shown: name for shown, name in FIGURES.items() if name in runs}
    means = runs.groupby("way", sort=False)[list(known.values())].mean().reset_index()
    means.columns = pd.Index(["way", *known])
    ratios = compared(runs)
    part = "" if args.parts == ["ways"] else "_" + "_".join(args.parts)
    part += "" if args.load == 2.9 else f"_load_{args.load:g}"
    for name, table in (("elastic_deepboot", means), ("elastic_deepboot_ratios", ratios)):
        print(f"\n{to_markdown(table)}")
        write_csv(table, args.out, f"{name}{part}", bars=True)
    for way, published in PAPER.items():
        if way in set(runs["way"]):
            found = paired(runs, {"way": "deepboot, pooled"}, {"way": way})
            print(
                f"DeepBoot's mean completion time is {100 * (1 - found.estimate):.0f} % below that "
                f"of {way}; published: {100 * (1 - published):.0f} %, on the testbed 32 %"
            )
    if args.data.is_dir() and runs["seed"].nunique() > 1:
        judge(runs, args.load)
    write_csv(runs, args.out, f"elastic_deepboot_runs{part}")
    print(machine())


if __name__ == "__main__":
    main()
