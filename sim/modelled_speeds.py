"""Speeds on GPUs that nobody measured the jobs on: a model of them, said wherever they are used.

A job on a GPU that its throughputs do not know is as fast as on one that they know, times a factor
between the ratio of the two memory bandwidths and that of the operations in 16 bits
(`apportion.cluster.speed_ratios`, a roofline). Published ratios lie near the first of them: nine of
`measured_ratios` are 0.88 to 1.19 times that of the bandwidths, 1.01 times in the (geometric) mean.
So jobs are as fast as the bandwidths say. Where it is known how much faster than on a k80 they were
on a v100, those that gained most go half of the way to the ratio of operations, those that gained
least stay, and others lie between. It is no measurement: what was published of a model comes before
it, a factor of one's own (`speed`) overrides both, and so does a column of throughputs.

How much faster models train on one GPU than on another, as was published.

Sources, mixed precision on both sides: the tables of training performance of NVIDIA's
DeepLearningExamples for PyTorch (github.com/NVIDIA/DeepLearningExamples, commit 729963d of April
2024; one GPU of a DGX A100, DGX-1 or DGX-2), and, for the H100, pairs of results of MLPerf Training
3.0 with as many GPUs in the same system of one vendor, as R. Lucchesi compared them (Silverton
Consulting, 12 July 2023).
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from apportion.checks import mapping, number
from apportion.cluster import ACCELERATORS, is_slice, speed_ratios
from apportion.errors import InputError, unknown_name
from apportion.sim.job_types import job_types

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    import pandas as pd

    from apportion.pairs import PairThroughputs
    from apportion.sim.workload import Workload
    from apportion.types import Floats


MEASURED_RATIOS: Mapping[str, Mapping[tuple[str, str], float]] = MappingProxyType(
    {
        "resnet50": {("a100_80gb", "v100"): 2470 / 1200, ("h100", "a100_80gb"): 14.4 / 7.8},
        "bert": {("a100_80gb", "v100"): 580 / 224},
        "transformer": {("a100", "v100"): 82_059 / 39_911},
        "transformerxl": {("a100", "v100"): 59_961 / 36_692},
        "gnmt": {("a100", "v100"): 140_909 / 87_829},
        "ncf": {("a100", "v100"): 34.08 / 22.16},
        "dlrm": {("h100", "a100_80gb"): 8.4 / 4.3},
        "3dunet": {("h100", "a100_80gb"): 11.0 / 7.6},
    }
)
"""Speed on the first type over that on the second, by model."""

_SIZES = ("base", "large")


def model_of(job_type: str) -> str | None:
    """Return the name of the model in `MEASURED_RATIOS` that a job type trains; None for others.

    The batch size in brackets and the size of the model do not matter, nor does how it is spelt:
    ``"ResNet-50 (batch size 64)"``, ``"bert_large"``.
    """
    name = re.sub(r"[^a-z0-9]", "", job_type.lower().partition("(")[0])
    for size in _SIZES:
        name = name.removesuffix(size)
    return name if name in MEASURED_RATIOS else None


def measured_ratio(job_type: str, name: str, reference: str) -> float | None:
    """How many times as fast a job is on a type as on another, by measurements alone.

    Ratios are chained where nobody measured both: h100 over a100_80gb times a100_80gb over v100.

    Parameters
    ----------
    job_type
        Of which only the model counts, see `model_of`.
    name, reference
        Accelerator types.

    Returns
    -------
    float or None
        None where no measurements lead from one type to the other.
    """
    steps = MEASURED_RATIOS.get(model_of(job_type) or "", {})
    known, reached = {reference: 1.0}, [reference]
    for old in reached:
        for (fast, slow), ratio in steps.items():
            for here, there, times in ((slow, fast, ratio), (fast, slow, 1 / ratio)):
                if here == old and there not in known:
                    known[there] = known[old] * times
                    reached.append(there)
    return known.get(name)


BASE = "v100"
"""Of which factors of one's own are, whatever types a log or a table of throughputs has."""

_FARTHEST = 0.5
"""How far towards arithmetic the job types go that gained most on a v100."""


def with_modelled_speeds(
    workload: Workload,
    accelerators: Iterable[str],
    speed: Mapping[str, float] | None = None,
    ran_on: Collection[str] = (),
) -> Workload:
    """Add throughputs on the types that a workload does not know, with a note of what they are.

    Parameters
    ----------
    workload
        Jobs with throughputs on at least one type of `apportion.accelerators`.
    accelerators
        Types that are wanted; such as are not of `apportion.accelerators`, and have no factor in
        `speed`, are left out.
    speed
        Times as fast as a v100, by type: in place of the model. Of jobs that no throughput on a
        v100 is known of, times what the model says of it.
    ran_on
        Types on which jobs were recorded, wanted as well; the model does not start from those that
        have a factor.

    Raises
    ------
    InputError
        For a factor of a type that is not wanted, that is no positive number, or that of a v100
        and not 1; and for factors where no type of the throughputs is known.
    """
    wanted = list(dict.fromkeys([*accelerators, *ran_on]))
    given = mapping("speed", {} if speed is None else speed, 'a mapping such as {"a100": 2.3}')
    for name, factor in given.items():
        if name not in wanted:
            raise unknown_name("accelerator in speed", name, wanted)
        number(f"The speed of {name!r}", factor, strict=True)
        if name == BASE and factor != 1:
            raise InputError(
                f"The speed of {BASE!r} is {factor}; speeds are times that of a {BASE}, so leave "
                f"it out, or give a column of throughputs."
            )
    table = workload.throughputs
    new = [name for name in wanted if name in given or name not in table.columns]
    new = [name for name in new if name in given or name in ACCELERATORS]
    if not new:
        return workload
    known = [name for name in table.columns if name in ACCELERATORS and table[name].gt(0).any()]
    if given and not known:
        raise InputError(
            f"speed of {', '.join(map(repr, given))} is times that of a {BASE}, and the "
            f"throughputs are of no type of apportion.accelerators(), but of "
            f"{', '.join(map(repr, table.columns))}; give a column of throughputs."
        )
    if not known:
        return workload
    others = [name for name in known if name not in given or name not in ran_on]
    reference = max(others or known, key=lambda name: ACCELERATORS[name].fp16)
    best, notes, columns = table[reference].to_numpy(dtype=float), list[str](), {}
    if given:
        factor, said = _modelled(table.index, BASE, reference)
        base = best * factor
        if BASE in table:
            base = np.where(table[BASE] > 0, table[BASE], base)
        else:
            notes += said
    for name in new:
        if name in given:
            columns[name] = given[name] * base
            notes.append(f"speeds on {name}: {given[name]:g} times those on {BASE}, as given")
            continue
        factor, said = _modelled(table.index, name, reference)
        columns[name] = best * factor
        notes += said
    gangs = table.index.get_level_values("scale_factor").to_numpy() > 1
    for name in filter(is_slice, new):
        if gangs.any() and name not in given:
            columns[name] = np.where(gangs, 0.0, columns[name])
            notes.append(f"gangs do not run on {name}: slices of GPUs know no peers")
    pairs = workload.pairs and _shared(workload.pairs, reference, columns, table)
    throughputs, notes = table.assign(**columns), [*workload.notes, *notes]
    return replace(workload, throughputs=throughputs, pairs=pairs, notes=tuple(notes))


def _modelled(rows: pd.Index, name: str, reference: str) -> tuple[Floats, list[str]]:
    """Return how many times as fast rows are on a type as on another, and notes of how it is known.

    As measured where that is published, else by the model.
    """
    ends = by_memory, by_arithmetic = speed_ratios(name, reference)
    models = rows.get_level_values(0)
    factor = by_memory * (by_arithmetic / by_memory) ** _bound_by_arithmetic(models)
    measured, notes = _measured(models, name, reference), list[str]()
    known = ~np.isnan(measured)
    if known.any():
        notes.append(_as_measured(rows[known], measured[known], name, reference))
    if not known.all():
        between = f"{min(ends):.2g} to {max(ends):.2g} times those on {reference}"
        notes.append(
            f"speeds on {name} are modelled, not measured: {between}, by bandwidth and operations "
            f"of their data sheets"
        )
    return np.where(known, measured, factor), notes


def _measured(types: pd.Index, name: str, reference: str) -> Floats:
    """Return published ratios of speeds by row, NaN where there are none."""
    found = {each: measured_ratio(str(each), name, reference) for each in types.unique()}
    return np.array([found[each] for each in types], dtype=np.float64)


def _as_measured(rows: pd.Index, ratios: Floats, name: str, reference: str) -> str:
    """Say of which job types speeds are as published."""
    models = [str(each).partition(" (")[0] for each in rows.get_level_values(0)]
    said = dict(zip(models, ratios.tolist(), strict=True))
    each = ", ".join(f"{model} {ratio:.2g}" for model, ratio in said.items())
    return f"speeds on {name} over those on {reference} as published: {each} times"


def _bound_by_arithmetic(types: pd.Index) -> Floats:
    """Return where between bandwidth (0) and arithmetic (1) job types lie; 0 where not known."""
    return _FARTHEST * np.array([_places().get(str(each), 0.0) for each in types])


@cache
def _places() -> dict[str, float]:
    """Return the places of the job types that were measured on a k80 and a v100."""
    measured = job_types()
    step = np.log(measured["v100"] / measured["k80"])
    place = (step - step.min()) / (step.max() - step.min())
    return {str(name): float(each) for name, each in place.items()}


def _shared(
    pairs: PairThroughputs, reference: str, columns: Mapping[str, Floats], table: pd.DataFrame
) -> PairThroughputs:
    """Let jobs that share a GPU slow each other down as on the reference."""
    if reference not in pairs.accelerators:
        return pairs
    at = pairs.accelerators.index(reference)
    row = table.index.get_indexer(pairs.keys)
    own, alone, names = pairs.own, pairs.alone, list(pairs.accelerators)
    for name, column in columns.items():
        ratio = np.divide(
            column[row], alone[:, at], out=np.zeros(len(row)), where=(alone[:, at] > 0) & (row >= 0)
        )
        keep = [place for place, each in enumerate(names) if each != name]
        beside = own[:, :, at] * ratio[:, None]
        own = np.concatenate([own[:, :, keep], beside[:, :, None]], axis=2)
        alone = np.column_stack([alone[:, keep], alone[:, at] * ratio])
        names = [names[place] for place in keep] + [name]
    # Of two that share, one may run where the model says that the other does not.
    both = (own > 0) & (own.transpose(1, 0, 2) > 0)
    return replace(pairs, own=own * both, alone=alone, accelerators=tuple(names))
