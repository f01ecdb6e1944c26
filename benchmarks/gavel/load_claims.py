"""What Gavel's paper claims of completion times against load, judged by a table of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from benchmarks.experiment import claimed
from benchmarks.papers.claims import Figure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pandas as pd

LOADS = (4.0, 4.8, 5.2, 5.6)
AGNOSTIC, GANDIVA, ALLOX = "max_min_fairness_agnostic", "gandiva_packing", "allox"
AWARE, SHARING = "max_min_fairness", "max_min_fairness_space_sharing"
FINISH_TIME = "finish_time_fairness_agnostic", "finish_time_fairness"
FILLING, FILLING_AGNOSTIC = "hierarchical_fairness", "hierarchical_fairness_agnostic"
"""Water filling: of one entity, all jobs are one level."""


def judged_by(jobs_are: str, table: pd.DataFrame) -> list[dict[str, str]]:
    """Judge the claims of single-GPU jobs, of gangs, or of weighted ones, that were run."""
    found = JUDGES[jobs_are](table)
    return [claimed("gavel", name, figures) for name, figures in found.items() if figures]


def _ratios(table: pd.DataFrame, column: str = "JCT h") -> Callable[..., list[Figure]]:
    """Return what gives the figures of one policy over another, at some loads or at all."""
    hours = table.pivot(index="load", columns="policy", values=column)

    def over(worse: str, better: str, loads: Sequence[float] | None = None) -> list[Figure]:
        if not {better, worse} <= set(hours.columns):
            return []
        ratio = hours[worse] / hours[better]
        some = ratio if loads is None else ratio[ratio.index.isin(loads)]
        return [Figure(f"{load:g}", float(each)) for load, each in some.items()]

    return over


def _verdicts(table: pd.DataFrame) -> dict[str, list[Figure]]:
    """Give the figures of the claims of single-GPU jobs, for the policies that were run."""
    over, top = _ratios(table), LOADS[-1:]
    known = table[table["Gavel h"].notna() & table["policy"].isin([AGNOSTIC, AWARE, SHARING])]
    near = [
        Figure(f"{policy} {load:g}", hours / gavel_h)
        for policy, load, hours, gavel_h in known[
            ["policy", "load", "JCT h", "Gavel h"]
        ].itertuples(index=False)
    ]
    return {
        "load-aware": over(AGNOSTIC, AWARE),
        "load-sustained": _sustained(table),
        "load-3x": over(AGNOSTIC, AWARE, top) if len(known) else [],
        "load-sharing": over(AWARE, SHARING, top),
        "load-packing": over(GANDIVA, AWARE),
        "load-allox": over(AWARE, ALLOX, top),
        "load-finish-time": over(*FINISH_TIME),
        "load-finish-time-rho": _ratios(table, "FTF")(*FINISH_TIME),
        "load-fifo": over("fifo_agnostic", "fifo", LOADS[:3]),
        "load-each": near,
    }


def _sustained(table: pd.DataFrame) -> list[Figure]:
    """Give the load at which aware jobs take as long as unaware ones at the least, over that."""
    hours = table.pivot(index="load", columns="policy", values="JCT h")
    if not {AGNOSTIC, AWARE} <= set(hours.columns) or tuple(hours.index) != LOADS:
        return []
    unaware_h, aware_h = hours[AGNOSTIC].iloc[0], hours[AWARE].cummax().to_numpy()
    if aware_h[-1] < unaware_h:
        return []
    return [Figure("", float(np.interp(unaware_h, aware_h, LOADS)) / LOADS[0])]


def _of_gangs(table: pd.DataFrame) -> dict[str, list[Figure]]:
    over = _ratios(table)
    return {
        "load-gangs": over(AGNOSTIC, AWARE),
        "load-gangs-sharing": over(AWARE, SHARING),
        "load-gangs-packing": over(GANDIVA, AWARE, (2.0, 2.6)),
        "load-gangs-finish-time": over(*FINISH_TIME, (2.6,)),
    }


def _of_weighted(table: pd.DataFrame) -> dict[str, list[Figure]]:
    figures = [
        Figure(column.removesuffix(" h"), figure.value)
        for column in ("high h", "low h")
        for figure in _ratios(table, column)(FILLING_AGNOSTIC, FILLING)
    ]
    return {"priorities": figures}


JUDGES = {"single": _verdicts, "gangs": _of_gangs, "weighted": _of_weighted}
