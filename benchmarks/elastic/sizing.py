"""A day of requests beside elastic jobs: lending as requests come, and sized by a forecast.

``python -m benchmarks.elastic.sizing`` has a row for each way: idle GPUs are lent and called back
when a request needs one; or as many as a forecast says are kept from training at each interval, the
quantile of twenty days past. Jobs and requests are generated, a seed for each day; 95 % intervals
of differences to reactive lending, paired.
``--quick``: two seeds of six jobs over two hours.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

import apportion as ap
from apportion.elastic import Bursts, DiurnalRate, Reserve, generate_requests
from apportion.statistics import paired, to_markdown
from benchmarks.elastic.runs import in_words
from benchmarks.experiment import parser, run_all
from benchmarks.reporting import machine, write_csv

if TYPE_CHECKING:
    from collections.abc import Mapping

GPUS = 24
REACTIVE = "reactive lending"
WAYS = (REACTIVE, "sized, 5 %", "sized, 20 %")
PAST_DAYS = 20


def requests_of(seed: int, hours: float) -> pd.DataFrame:
    """Draw the requests of a day of two services, ten seconds each on average."""
    return generate_requests(
        DiurnalRate(0.4),
        length_s=3600 * hours,
        services=2,
        mean_duration_s=10.0,
        bursts=Bursts(noise=0.2, spikes_per_day=3),
        seed=seed,
    ).assign(slo_s=lambda made: 3 * made["duration_s"] + 8)


def serving_of(way: str, seed: int, hours: float) -> ap.Serving:
    """Return how requests are served."""
    past = [requests_of(1000 + 100 * seed + day, hours) for day in range(PAST_DAYS)]
    share = 0.2 if way == "sized, 20 %" else 0.05
    reserve = Reserve.of_days(past, epsilon=share, day_s=3600 * hours)
    asked = requests_of(seed, hours)
    return ap.Serving(asked, reserve=None if way == REACTIVE else reserve)


def play(settings: Mapping[str, Any], _data: Path | None) -> dict[str, Any]:
    """Run one way on one day."""
    hours, seed = float(settings["hours"]), int(settings["seed"])
    workload = ap.generate_elastic_workload(int(settings["jobs"]), hours=hours, seed=seed)
    serving = serving_of(str(settings["way"]), seed, hours)
    how = ap.Configurations(
        interval_seconds=300.0, restart=str(settings["restart"]), serving=serving
    )
    found = ap.simulate("deepboot", workload, {"t4": GPUS}, mechanism=how).summary()
    return {
        "mean JCT, s": found["mean_jct_s"],
        "missed SLO, %": 100 * (1 - found["slo_attainment"]),
        "request, 99 %, s": found["p99_request_s"],
        "reclaims": found["reclaims"],
        "restarts of a job": found["restarts"],
        "loaned GPU-hours": found["loaned_gpu_hours"],
    }


def ratios(runs: pd.DataFrame) -> pd.DataFrame:
    """Return each way beside reactive lending, seed by seed, with intervals."""
    rows = []
    for restart, here in runs.groupby("restart", sort=False):
        of_way = {way: each.set_index("seed") for way, each in here.groupby("way", sort=False)}
        base = of_way.pop(REACTIVE)
        for way, each in of_way.items():
            missed = "missed SLO, %"
            row = {
                "JCT over reactive": paired(each["mean JCT, s"], base["mean JCT, s"], ratio=True),
                "missed SLO less reactive, points": paired(each[missed], base[missed]),
                "reclaims less reactive": paired(each["reclaims"], base["reclaims"]),
            }
            words = {name: in_words(found) for name, found in row.items()}
            rows.append({"restart": restart, "way": way, **words})
    return pd.DataFrame(rows)


def main() -> None:
    """Run and print."""
    first = (__doc__ or "").partition("\n")[0]
    options = parser("elastic.sizing", first, "two seeds of six jobs over two hours")
    options.add_argument("--restart", nargs="+", default=["afe", "stop_resume"])
    options.add_argument("--seeds", type=int, default=5, metavar="N", help="days (default: 5)")
    args = options.parse_args()
    args.data = Path("nowhere")  # everything is generated
    seeds, hours, jobs = (2, 2.0, 6) if args.quick else (args.seeds, 24.0, 60)
    settings = [
        {"restart": restart, "way": way, "seed": seed, "hours": hours, "jobs": jobs}
        for restart in args.restart
        for seed in range(seeds)
        for way in WAYS
    ]
    runs = run_all(play, settings, args, "elastic_sizing")
    kept = runs.drop(columns=["seed", "hours", "jobs"])
    means = kept.groupby(["restart", "way"], sort=False).mean().reset_index()
    for name, table in (("means", means), ("ratios", ratios(runs))):
        print(f"\n{to_markdown(table)}")
        write_csv(table, args.out, f"elastic_sizing_{name}")
    print(machine())


if __name__ == "__main__":
    main()
