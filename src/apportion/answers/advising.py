"""`advise`: simulates what a page of advice on a log is about."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from apportion.annotations import checked
from apportion.answers.advice import Advice
from apportion.answers.other_clusters import what_if
from apportion.answers.page import RECORDED, Page
from apportion.answers.recommendation import recommend
from apportion.checks import whole
from apportion.cluster import Cluster
from apportion.errors import InputError
from apportion.experiments import compare
from apportion.experiments.fitted_jobs import made_for
from apportion.experiments.plan import deciders_of
from apportion.experiments.sources import sources_of
from apportion.report.files import write_page, write_text
from apportion.sim.deciders import knows_durations
from apportion.sim.traces.recorded_times import is_recorded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from apportion.mechanisms.setting_names import ComparisonSettings
    from apportion.sim import Workload

POLICIES = ("shortest_job_first", "max_min_fairness", "fcfs", "easy", "minimum_completion_time")
"""Who is asked where nobody says."""

_MORE_GPUS = 8
_ASKED = 2
"""Of those that no other beats, so many are asked what more GPUs bring."""


@checked
def advise(
    log: Any,
    cluster: Cluster | Mapping[str, int] | str,
    policies: Sequence[str] = POLICIES,
    *,
    add: str | None = None,
    by: str | None = None,
    draws: int = 8,
    seed: int = 0,
    out: str | Path | None = None,
    n_jobs: int | None = None,
    command: Sequence[str] = (),
    **settings: Unpack[ComparisonSettings],
) -> Advice:
    """Say what a scheduler loses, which one to take, and what would help, on one page.

    It puts `apportion.compare`, `apportion.recommend`, `apportion.floor` and `apportion.what_if`
    into words; what chance would do as well is said to be so. What more GPUs bring is asked of
    policies that no other beats, and of one that needs no durations: by draws that did not choose
    them, with intervals that would hold for each of the policies (Bonferroni).

    Parameters
    ----------
    log
        A workload as `apportion.sweep` takes it; one with recorded starts and ends for what the
        scheduler of the log loses.
    cluster
        Where it ran, as for `apportion.simulate`.
    policies
        Names of deciders to choose from, two at least.
    add
        GPUs to ask about, ``"a100=8"``; 8 more of the type that there is most of by default.
    by
        A column of the jobs for what groups had; ``user`` by default, if there is one.
    draws
        Resamples of the log, two at least.
    seed
        For what a log leaves open.
    out
        Folder for ``advice.html`` and ``advice.txt``, and where finished runs are kept.
    n_jobs
        Runs at once.
    command
        Options of the command line that say what this is about, for the commands on the page. Where
        left out they are those of `log` and `cluster`, and the page says what they lack.
    **settings
        As for `apportion.compare`.

    Raises
    ------
    InputError
        As `apportion.compare` and `apportion.recommend`.
    ApportionError
        If a run fails.
    """
    cluster = Cluster.of(cluster)
    if len(policies) < 2:
        raise InputError("advise chooses among policies; give two at least.")
    whole("draws", draws, 2)
    (source,) = sources_of([log])
    jobs = made_for(source, cluster, 1.0, seed, resample=False)
    if jobs.elastic is True:
        raise InputError("advise is about jobs whose gangs have one size, not elastic ones.")
    deciders = deciders_of(policies, [jobs])
    knowing = frozenset(each.label for each in deciders if knows_durations(each, jobs.jobs))
    folder = None if out is None else Path(out)
    given: dict[str, Any] = {"n_jobs": n_jobs, **settings}

    def inside(name: str) -> Path | None:
        return None if folder is None else folder / name

    def compared_on(names: Sequence[str], costs: Any, **more: Any) -> Any:
        more |= {"start_costs": costs, "raise_on_failure": False}
        return compare(names, jobs, cluster, seed=seed, **more, **given)

    recorded = is_recorded(jobs.jobs, cluster)
    names = [*[RECORDED] * recorded, *policies]
    compared = compared_on(names, () if recorded else "usual", out=inside("compare"))
    at_costs = compared_on(policies, "usual") if recorded else compared
    race = recommend(policies, log, cluster, draws=draws, out=inside("recommend"), **given)
    about, lacks = (tuple(command), ()) if command else _as_command(log, jobs, cluster, settings)
    page = Page(compared, at_costs, race, knowing, command=about, seed=seed, lacks=lacks)
    most = max(cluster.gpus, key=lambda name: cluster.gpus[name])
    more = add or f"{most}={_MORE_GPUS}"
    by_label = dict(zip(race.policies, policies, strict=True))
    asked = [by_label[each] for each in dict.fromkeys([*race.left[:_ASKED], *page.unaware()[:1]])]
    others = range(draws, 2 * draws)
    change = what_if(asked, log, cluster, add=more, seeds=others, out=inside("whatif"), **given)
    group = by or ("user" if "user" in jobs.jobs else None)
    advice = Advice(jobs.name, str(cluster), page.parts(change, more, group))
    if folder is not None:
        write_text(folder / "advice.txt", f"{advice}\n")
        write_page(folder / "advice.html", advice.to_html)
    return advice


def _as_command(
    log: Workload | Mapping[str, Any] | str | Path,
    jobs: Workload,
    cluster: Cluster,
    settings: Mapping[str, Any],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return options that say what advice is about, and in sentences what they cannot say."""
    given = {"path": log} if isinstance(log, str | Path) else log
    file, lacks = f"{jobs.name}.csv", list[str]()
    if isinstance(given, Mapping) and "path" in given:
        file = str(given["path"])
        further = [name for name in given if name != "path"]
        if further:
            lacks.append(f"Commands read {file} without {', '.join(further)}; give them too.")
    else:
        lacks.append(
            f"Commands read the jobs that were given in Python, {jobs.name}, from a file that has "
            f"to be written first: .save({file!r}) of the workload."
        )
    if settings:
        told = ", ".join(f"{name}={value!r}" for name, value in settings.items())
        lacks.append(f"Commands have none of the settings given in Python: {told}.")
    usual = Cluster.of(str(cluster))
    if cluster != usual:
        lacks.append(f"Commands have {cluster} with the usual machines, sizes and prices.")
    return ("--workload", file, "--cluster", str(cluster)), tuple(lacks)
