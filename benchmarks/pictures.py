"""``python -m benchmarks.pictures``: the pictures of the README and of the pages in ``docs``.

Each is drawn from a run that its page shows the code of, seeded: the same bytes come out. ``--only
NAME`` draws one of them, ``--quick`` all of them smaller into ``--out``.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import apportion as ap
from apportion.report import day_figure, gantt_figure, plot
from apportion.report.link_plots import compatibility_figure
from apportion.report.style import plotting_style
from apportion.sim.inference import DiurnalRate, generate_requests

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"
BLIND = ["max_min_fairness", "max_min_fairness_agnostic"]


def aware(quick: bool) -> Figure:
    """Draw what knowing types is worth: mean completion time against load."""
    workload = {"jobs": 20 if quick else 60, "jobs_per_hour": 2.0}
    loads, seeds = ([0.5, 1.0], [0]) if quick else ([0.5, 1.0, 2.0], [0, 1, 2])
    swept = ap.sweep(BLIND, workload, "v100=8,p100=8,k80=8", loads=loads, seeds=seeds, n_jobs=1)
    figure = swept.plot("mean_jct_s")
    (axes,) = figure.axes
    axes.set_title("Max-min fairness, by what it knows of the types of GPUs", loc="left")
    axes.set_xlabel("load (1: two jobs per hour)")
    words = ("knows how fast each job is on each type", "takes all types for the same")
    for text, said in zip(figure.legends[0].get_texts(), words, strict=True):
        text.set_text(said)
    return figure


def gantt(quick: bool) -> Figure:
    """Draw the schedule of the tutorial."""
    workload = ap.generate_workload(jobs=4 if quick else 12, seed=1, jobs_per_hour=4)
    run = ap.simulate(
        "max_min_fairness", workload, "v100=2,p100=2,k80=2", preemption_overhead_seconds=0.0
    )
    return gantt_figure(run, "Who has which GPU when, under max_min_fairness")


def racks(quick: bool) -> Figure:
    """Draw where gangs lie under Dally, Tiresias and Gandiva."""
    batch = ap.generate_rack_workload(jobs=10 if quick else 100, seed=1)
    rules = ["dally", "tiresias", "gandiva"]
    compared = ap.compare(rules, batch, ap.Cluster.of_racks(2), network="table1", n_jobs=1)
    return plot(compared.runs, "tiers")


def link(quick: bool) -> Figure:
    """Draw two jobs on a link, started together and shifted."""
    half = ap.CommunicationProfile("half", 0.2, [(0.1, 0.1, 50.0)])
    return compatibility_figure(ap.compatibility([half, half.named("other")], 50.0))


def contended(quick: bool) -> Figure:
    """Draw completion times under three gates."""
    workload = ap.generate_contended_workload(seed=0, scale=0.001 if quick else 0.01)
    cluster = ap.Cluster({"v100": 64}, gpus_per_machine=4)
    gates = ["ada_srsf", "srsf_1", "srsf_2"]
    compared = ap.compare(gates, workload, cluster, gpu_memory_gb=32.0, n_jobs=1)
    return plot(compared.runs, "completion_times")


def day(quick: bool) -> Figure:
    """Draw GPUs that serve requests and train in turn."""
    rate = DiurnalRate(mean=0.1)
    requests = generate_requests(rate, services=3, mean_duration_s=5, slo_factor=3)
    workload = ap.generate_elastic_workload(jobs=8, seed=0)
    run = ap.simulate("deepboot", workload, "v100=16", gang_restart="afe", serving=requests)
    return day_figure({"deepboot": run.tables})


PICTURES: dict[str, Callable[[bool], Figure]] = {
    each.__name__: each for each in (aware, gantt, racks, link, contended, day)
}


def main() -> None:
    """Draw the pictures, or one of them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pictures", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less of everything")
    parser.add_argument("--only", choices=list(PICTURES), help="one picture")
    parser.add_argument("--out", type=Path, metavar="DIR", help="(default: docs/pictures)")
    options = parser.parse_args()
    folder = options.out or (Path(tempfile.mkdtemp()) if options.quick else FOLDER)
    folder.mkdir(parents=True, exist_ok=True)
    for name in [options.only] if options.only else PICTURES:
        figure = PICTURES[name](options.quick)
        path = folder / f"{name}.svg"
        with plotting_style():
            figure.savefig(path, metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
        print(f"{path} ({path.stat().st_size // 1024} KiB)", flush=True)


if __name__ == "__main__":
    main()
