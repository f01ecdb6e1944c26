"""Put a case to the library, by its public interface only."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import apportion as ap
from benchmarks.trust.case import GPUS_PER_MACHINE, MACHINES_PER_RACK

if TYPE_CHECKING:
    from benchmarks.trust.case import Case, Floats


@dataclass(frozen=True)
class Answer:
    """What the library says, as arrays in the order of the case."""

    X: Floats
    throughput: Floats
    objective: float
    prices: Floats
    gap: float
    status: str
    loss: float | None
    message: str = ""


def ask(case: Case) -> Answer:
    """Solve the case; whatever the library raises passes through."""
    policy = ap.get_policy(case.policy, **case.options)
    table, cluster, jobs = posed(case)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if case.route == "session" and isinstance(table, pd.DataFrame):
            allocation = _by_session(policy, table, cluster, jobs)
        else:
            more = {**case.arguments, "pairs": _pairs(case)}
            allocation = ap.solve(policy, table, workers=cluster, jobs=jobs, **more)
    return answer(case, allocation)


def posed(case: Case) -> tuple[ap.ThroughputTensor | pd.DataFrame, ap.Cluster, pd.DataFrame]:
    """Return tensor, cluster and jobs table, the jobs in another order than the tensor."""
    ids = [f"j{job}" for job in range(case.jobs)]
    options = _options(case)
    cluster = ap.Cluster(
        {case.types[k]: int(case.capacity[k]) for k in case.order},
        gpus_per_machine=GPUS_PER_MACHINE,
        machines_per_rack=MACHINES_PER_RACK,
        prices_per_gpu_hour={case.types[k]: float(case.dollars[k]) for k in case.order},
    )
    columns = dict(case.columns)
    if (columns["count"] == 1).all():
        del columns["count"]
    jobs = pd.DataFrame(columns, index=ids)
    for whole in ("scale_factor", "count"):
        if whole in jobs:
            jobs[whole] = jobs[whole].astype(int)
    if case.entity:
        jobs["entity"] = list(case.entity)
    if case.kind is not None:
        jobs["job_type"] = [f"kind {kind}" for kind in case.kind]
    if case.shape != "combinations":
        alone = case.speed[: case.jobs]  # pairs follow
        return pd.DataFrame(alone, index=ids, columns=options), cluster, jobs.iloc[::-1]
    rows: dict[tuple[str, ...], list[Floats]] = {}
    for row in range(case.rows):
        members = np.flatnonzero(case.row == row)
        rows[tuple(ids[case.job[m]] for m in members)] = [case.speed[m] for m in members]
    combinations: dict[tuple[str, ...], list[list[float]]] = {
        members: [list(map(float, speed)) for speed in speeds] for members, speeds in rows.items()
    }
    return (
        ap.ThroughputTensor.of_combinations(combinations, list(options)),
        cluster,
        jobs.iloc[::-1],
    )


def _options(case: Case) -> Any:
    """Labels of the options."""
    names = [case.types[k] for k in case.option_type]
    seconds: dict[str, list[Any]] = {"tiers": ["machine", "rack", "network"], "sizes": [1, 2, 4]}
    if case.shape not in seconds:
        return pd.Index(names)
    return pd.MultiIndex.from_arrays([names, seconds[case.shape] * (len(names) // 3)])


def _pairs(case: Case) -> ap.PairThroughputs | None:
    """Steps/s of job types alone and beside each other, for the shape "pairs"."""
    if case.kind is None or case.beside is None:
        return None
    count = len(case.beside)
    alone = np.zeros((count, case.beside.shape[2]))
    alone[case.kind] = case.speed[: case.jobs]
    size = int(case.columns["scale_factor"][0])
    keys = [(f"kind {kind}", size) for kind in range(count)]
    return ap.PairThroughputs(
        own=case.beside * ((alone[:, None] > 0) & (alone[None, :] > 0)),
        alone=alone,
        keys=pd.MultiIndex.from_tuples(keys, names=["job_type", "scale_factor"]),
        accelerators=tuple(case.types[k] for k in case.option_type),
    )


def _by_session(
    policy: ap.Policy, table: pd.DataFrame, cluster: ap.Cluster, jobs: pd.DataFrame
) -> Any:
    """Let jobs come and go, and end with those of the case."""
    first = table.index[: (len(table) + 1) // 2]
    with ap.session(policy, cluster) as session:
        session.add(table.loc[first], jobs.loc[first])
        session.solve()
        if len(first) < len(table):
            rest = table.index.difference(first, sort=False)
            session.add(table.loc[rest], jobs.loc[rest])
            session.solve()
            session.remove(list(first))
            session.solve()
            session.add(table.loc[first], jobs.loc[first])
        return session.solve()


def answer(case: Case, allocation: Any) -> Answer:
    """Arrays of an allocation, rows and options in the order of the case."""
    ids = [f"j{job}" for job in range(case.jobs)]
    labels = ids
    if case.rows > case.jobs:
        labels = [
            " + ".join(ids[case.job[m]] for m in np.flatnonzero(case.row == row))
            for row in range(case.rows)
        ]
    loss = allocation.stats.get("loss")
    return Answer(
        X=_table(allocation.X, labels, case).to_numpy(dtype=float),
        throughput=allocation.throughput.reindex(ids).to_numpy(dtype=float),
        objective=float(allocation.objective),
        prices=allocation.prices.reindex(list(case.types)).fillna(0.0).to_numpy(dtype=float),
        gap=float(allocation.gap),
        status=str(allocation.status),
        loss=None if loss is None else float(loss),
        message=str(allocation.message),
    )


def _table(X: pd.DataFrame, labels: list[str], case: Case) -> pd.DataFrame:
    """Return X with the rows and options of the case; pairs that were left out have no time."""
    if case.shape != "pairs":
        return X.reindex(index=labels, columns=_options(case))
    turned = {" + ".join(label.split(" + ")[::-1]): label for label in labels}
    known = set(labels)
    X = X.rename(index=lambda label: label if label in known else turned.get(label, label))
    strangers = X.index.difference(labels)
    if len(strangers):
        raise LookupError(f"rows that nobody asked for: {list(strangers)[:3]}")
    return X.reindex(index=labels, columns=_options(case)).fillna(0.0)
