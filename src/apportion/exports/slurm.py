"""Commands of Slurm that bring shares, weights and an order of jobs into a cluster."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from apportion.errors import InputError, written

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

__all__ = ["slurm_commands"]

_FAIRSHARES = 1000
"""Shares of all accounts together, so that a thousandth counts."""
_FIRST = 1_000_000
"""Priority of the first job; Slurm holds a job with 0."""
_SAFE = re.compile(r"[A-Za-z0-9_.,:=/@+-]+")


def slurm_commands(
    gpus: pd.DataFrame | None = None,
    *,
    speeds: Mapping[str, float] | None = None,
    order: Sequence[Any] = (),
    partition: str = "gpu",
) -> list[str]:
    """Return lines for a shell and for ``slurm.conf`` (those after ``#``).

    Parameters
    ----------
    gpus
        GPUs by account and type: ``sacctmgr modify account`` sets fair shares in proportion to all
        that an account has, weighted by `speeds`.
    speeds
        What a GPU of a type is worth, the best 1: ``TRESBillingWeights`` of the partition.
    order
        Ids of waiting jobs, the first first: ``scontrol update`` gives them falling priorities.
    partition
        Name of the partition.

    Raises
    ------
    InputError
        If a name has characters that a shell or Slurm would read otherwise, or weights are missing.
    """
    lines: list[str] = []
    if speeds is not None:
        best = max(speeds.values())
        if best <= 0:
            raise InputError("No type is worth anything.")
        weights = [f"GRES/gpu:{_word(kind)}={each / best:.6g}" for kind, each in speeds.items()]
        lines.append(f"# PartitionName={_word(partition)} TRESBillingWeights={','.join(weights)}")
    if gpus is not None:
        worth = gpus if speeds is None else gpus.mul(_worth(gpus, speeds), axis=1)
        total = float(worth.to_numpy().sum())
        if total <= 0:
            raise InputError("No account has any GPU.")
        for account, has in worth.sum(axis=1).items():
            shares = max(1, round(_FAIRSHARES * float(has) / total))
            where = f"name={_word(account)}"
            lines.append(f"sacctmgr -i modify account where {where} set fairshare={shares}")
    for place, job in enumerate(order):
        lines.append(f"scontrol update JobId={_word(job)} Priority={_FIRST - place}")
    return lines


def _worth(gpus: pd.DataFrame, speeds: Mapping[str, float]) -> list[float]:
    for kind in gpus.columns:
        if kind not in speeds:
            raise InputError(f"There is no speed of {written(kind)}.")
    best = max(speeds.values())
    return [speeds[kind] / best for kind in gpus.columns]


def _word(name: Any) -> str:
    if not _SAFE.fullmatch(str(name)):
        raise InputError(f"{written(name)} is no name for Slurm: use letters, digits, _.,:=/@+-.")
    return str(name)
