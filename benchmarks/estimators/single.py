"""Errors of estimated speeds of single jobs, by how many cells were measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from apportion.estimators import (
    SpeedModel,
    family_of,
)
from apportion.sim.job_types import job_type_throughputs
from apportion.sim.traces.oracle import read_oracle
from benchmarks.reporting import progress, show, write_csv

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

Predictor = Callable[[pd.DataFrame, pd.DataFrame], Any]

MEASURED = (1, 2, 3, 5, 8)
MODEL = "required model"
SIMPLE = ("constant", "log-additive", "nearest reference")
SWEEPS = 50
PLACEMENTS = {"1": 1, "2": 2, "4": 4, "44": 8, "444": 12, "4444": 16}
# Targets of the model on Gavel's oracle: (setting, cells measured) -> mean |log error|.
TARGETS = {("family out", 3): 0.26, ("family out", 5): 0.23, ("family out", 8): 0.18}
TARGETS |= {("type out", 5): 0.16}

PROTOCOL = """
Protocol: rows are jobs, columns (accelerator, GPUs), natural logarithm of the gang's steps/s. The
rows of a group (a type, a family, an application) are left out of the references together; k cells
of each of them, drawn at random ({seeds} seeds), are measured without noise. Figures are the mean
|log error| over the other cells where the row runs; +- is the standard error over seeds.
"""


class Setting(NamedTuple):
    """A table of speeds, NaN where nothing runs, and what is left out together."""

    source: str
    name: str
    table: pd.DataFrame
    groups: list[str]


def single_jobs(data: Path, seeds: int, out: Path | None, *, quick: bool) -> pd.DataFrame:
    """Print the errors of every method in every setting, and verdicts; return the errors."""
    print("\nSpeeds of single jobs")
    print(PROTOCOL.format(seeds=seeds))
    rows = []
    for setting in settings(data):
        for cells in MEASURED[:2] if quick else MEASURED:
            progress(f"{setting.source}, {setting.name}: {cells} cells measured")
            rows += errors(setting, cells, seeds, ways())
    progress("")
    table = pd.DataFrame(rows)
    for (source, name), part in table.groupby(["source", "setting"], sort=False):
        print(f"\n{source}, {name}")
        shown = part.pivot_table("error", "method", "measured", sort=False)
        show(shown.reset_index(), digits=3)
        model = part[part["method"] == MODEL].set_index("measured")["standard error"]
        print("+- " + ", ".join(f"k={cells}: {error:.3f}" for cells, error in model.items()))
    _judge(table)
    write_csv(table, out, "estimator_single")
    return table


def settings(data: Path) -> list[Setting]:
    """Gavel's and Pollux's measurements where they are, else the speeds of generated workloads."""
    found = []
    oracle = data / "simulation_throughputs.json.gz"
    if oracle.is_file():
        found += _by_type("Gavel's oracle", read_oracle(oracle))
    else:
        print(f"skipped: data absent ({oracle}); speeds of generated workloads instead")
        found += _by_type("generated", job_type_throughputs())
    profiles = data.parent / "pollux" / "profiles_t4"
    if profiles.is_dir():
        table = _pollux(profiles)
        groups = [row.split()[0] for row in table.index]
        found.append(Setting("Pollux's T4 profiles", "application out", table, groups))
    else:
        print(f"skipped: data absent ({profiles}); no setting 'application out'")
    return found


def _by_type(source: str, oracle: pd.DataFrame) -> list[Setting]:
    table = pd.DataFrame(oracle.where(oracle > 0).unstack("scale_factor"))
    labels = [(str(label[0]), int(label[1])) for label in table.columns.tolist()]
    table.columns = pd.MultiIndex.from_tuples(labels)
    types = [str(name) for name in table.index]
    families = [family_of(name) for name in types]
    return [
        Setting(source, "type out", table, types),
        Setting(source, "family out", table, families),
    ]


def _pollux(profiles: Path) -> pd.DataFrame:
    """Examples/s of each application and batch size per GPU, on 1 to 16 GPUs placed densely."""
    rows = {}
    for folder in sorted(profiles.iterdir()):
        table = pd.read_csv(folder / "placements.csv", dtype={"placement": str})
        for size, part in table[table["placement"].isin(PLACEMENTS)].groupby("local_bsz"):
            gpus = [PLACEMENTS[placement] for placement in part["placement"]]
            speed = np.array(gpus) * int(str(size)) / part["step_time"].to_numpy(dtype=float)
            rows[f"{folder.name} {size}"] = dict(zip(gpus, speed.tolist(), strict=True))
    frame = pd.DataFrame.from_dict(rows, orient="index")[sorted(PLACEMENTS.values())]
    return frame.set_axis(pd.MultiIndex.from_tuples([("t4", gpus) for gpus in frame]), axis=1)


def errors(
    setting: Setting, cells: int, seeds: int, methods: dict[str, Predictor]
) -> list[dict[str, Any]]:
    """Mean error of every method with so many cells measured."""
    truth = np.log(setting.table.to_numpy(dtype=np.float64))
    groups = np.array(setting.groups)
    off_by: dict[str, list[list[float]]] = {}
    for number, group in enumerate(dict.fromkeys(setting.groups)):
        inside = np.flatnonzero(groups == group)
        enough = inside[np.count_nonzero(~np.isnan(truth[inside]), axis=1) > cells]
        if not enough.size:
            continue
        drawn = [_measured(truth[enough], cells, (seed, number)) for seed in range(seeds)]
        asked = np.concatenate(drawn)
        wanted = np.isnan(asked) & ~np.isnan(np.tile(truth[enough], (seeds, 1)))
        references = setting.table[groups != group]
        rows = pd.DataFrame(np.exp(asked), columns=setting.table.columns)
        for name, predict in methods.items():
            guess = np.log(np.asarray(predict(references, rows), dtype=np.float64))
            off = np.abs(guess - np.tile(truth[enough], (seeds, 1)))
            by_row = np.where(wanted, off, 0.0).sum(axis=1) / wanted.sum(axis=1)
            off_by.setdefault(name, []).extend(by_row.reshape(seeds, -1).T.tolist())
    facts = {"source": setting.source, "setting": setting.name, "measured": cells}
    result = []
    for name, rows_of in off_by.items():
        by_seed = np.mean(rows_of, axis=0)
        error = {"error": by_seed.mean(), "standard error": by_seed.std() / np.sqrt(seeds)}
        result.append({**facts, "method": name, **error})
    return result


def _measured(truth: Floats, cells: int, seed: tuple[int, int]) -> Floats:
    """Keep some cells of each row, drawn at random among those where it runs."""
    rng = np.random.default_rng(seed)
    rank = np.where(np.isnan(truth), 2.0, rng.random(truth.shape)).argsort(axis=1).argsort(axis=1)
    return np.where(rank < cells, truth, np.nan)


def ways() -> dict[str, Predictor]:
    """Ways to predict, by name."""
    return {
        "constant": _constant,
        "log-additive": _additive,
        "nearest reference": _nearest,
        MODEL: lambda references, rows: SpeedModel().fit(references).predict(rows),
    }


def _constant(references: pd.DataFrame, rows: pd.DataFrame) -> Floats:
    """All columns of a row are as fast as its measured ones in the mean."""
    logs = np.log(rows.to_numpy(dtype=np.float64))
    mean = np.nanmean(logs, axis=1, keepdims=True)
    return np.asarray(np.exp(np.broadcast_to(mean, logs.shape)))


def _additive(references: pd.DataFrame, rows: pd.DataFrame) -> Floats:
    """A scale for each row times a ratio for each column, by least squares of logarithms."""
    known, asked = (np.log(table.to_numpy(dtype=np.float64)) for table in (references, rows))
    ratios = np.zeros(known.shape[1])
    for _ in range(SWEEPS):
        scales = np.nanmean(known - ratios, axis=1, keepdims=True)
        ratios = np.nanmean(known - scales, axis=0)
    return np.asarray(np.exp(np.nanmean(asked - ratios, axis=1, keepdims=True) + ratios))


def _nearest(references: pd.DataFrame, rows: pd.DataFrame) -> Floats:
    """Take each cell from the reference nearest where both were measured, scaled to the row."""
    known, asked = (np.log(table.to_numpy(dtype=np.float64)) for table in (references, rows))
    additive = np.log(_additive(references, rows))
    both = ~np.isnan(known)[None] & ~np.isnan(asked)[:, None]
    rest = np.where(both, np.nan_to_num(asked)[:, None] - np.nan_to_num(known)[None], 0.0)
    count = both.sum(axis=2)
    scale = rest.sum(axis=2) / np.maximum(count, 1)
    square = np.where(both, (rest - scale[:, :, None]) ** 2, 0.0).sum(axis=2)
    # References that share more of the measured cells go first.
    order = np.lexsort((square / np.maximum(count, 1), -count), axis=1)
    for row, nearest in enumerate(order):
        for column in np.flatnonzero(np.isnan(asked[row])):
            has = nearest[~np.isnan(known[nearest, column]) & (count[row, nearest] > 0)]
            if has.size:
                additive[row, column] = known[has[0], column] + scale[row, has[0]]
    return np.asarray(np.exp(additive))


def _judge(table: pd.DataFrame) -> None:
    """Compare the model with the best simple way, and on Gavel's oracle with its targets."""
    print()
    for (source, name, cells), part in table.groupby(["source", "setting", "measured"], sort=False):
        error = dict(zip(part["method"].astype(str), part["error"].astype(float), strict=True))
        best = min(SIMPLE, key=error.__getitem__)
        word = "below" if error[MODEL] < error[best] else "NOT below"
        target = TARGETS.get((str(name), int(str(cells)))) if source == "Gavel's oracle" else None
        more = ""
        if target is not None:
            more = f"; target {target}: {'met' if error[MODEL] <= target else 'NOT met'}"
        print(
            f"{source}, {name}, k={cells}: {MODEL} {error[MODEL]:.3f}, {word} the best simple way "
            f"({best}, {error[best]:.3f}){more}"
        )
