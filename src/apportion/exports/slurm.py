"""Decisions in the words of Slurm, shares, weights and orders, and as placement groups of Ray."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Literal

from apportion.checks import choice, whole
from apportion.errors import InputError, written
from apportion.exports.entity_gpus import check_gpus

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from apportion.sim.one_round.decision import RoundDecision


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
    owners: Literal["accounts", "users"] = "accounts",
    partition: str = "gpu",
) -> list[str]:
    """Return lines for a shell and for ``slurm.conf`` (those after ``#``).

    Parameters
    ----------
    gpus
        GPUs by account, or user, and type: ``sacctmgr modify account`` (or ``user``) sets fair
        shares in proportion to all that each has, weighted by `speeds`.
    speeds
        What a GPU of a type is worth, the best 1: ``TRESBillingWeights`` of the partition.
    order
        Ids of waiting jobs, the first first: ``scontrol update`` gives them falling priorities.
    owners
        Whether the rows of `gpus` are accounts or users.
    partition
        Name of the partition.

    Raises
    ------
    InputError
        If a name has characters that a shell or Slurm would read otherwise, or weights are missing.
    """
    lines: list[str] = []
    owner = choice("owners", owners, ("accounts", "users")).removesuffix("s")
    if speeds is not None:
        best = max(speeds.values())
        if best <= 0:
            raise InputError("No type is worth anything.")
        weights = [f"GRES/gpu:{_word(kind)}={each / best:.6g}" for kind, each in speeds.items()]
        lines.append(f"# PartitionName={_word(partition)} TRESBillingWeights={','.join(weights)}")
    if gpus is not None:
        check_gpus(gpus)
        worth = gpus if speeds is None else gpus.mul(_worth(gpus, speeds), axis=1)
        total = float(worth.to_numpy().sum())
        if total <= 0:
            raise InputError(f"No {owner} has any GPU.")
        for name, has in worth.sum(axis=1).items():
            shares = max(1, round(_FAIRSHARES * float(has) / total))
            where = f"{owner} where name={_word(name)}"
            lines.append(f"sacctmgr -i modify {where} set fairshare={shares}")
    for place, job in enumerate(order):
        lines.append(f"scontrol update JobId={_word(job)} Priority={_FIRST - place}")
    return lines


def slurm_reservations(
    gpus: pd.DataFrame,
    gpus_per_node: int,
    minutes: int,
    *,
    start: str = "now",
    owners: Literal["accounts", "users"] = "accounts",
    partition: str = "gpu",
    prefix: str = "apportion",
) -> list[str]:
    """Return ``scontrol create reservation`` for whole nodes by account, or user, and type.

    Nodes are found by their feature, which is the name of the type. GPUs that fill no node are not
    reserved; a line after ``#`` says so. Commands that remove the reservations of before are not
    among them: ``scontrol delete ReservationName=...``.

    Parameters
    ----------
    gpus
        GPUs by account, or user, and type.
    gpus_per_node
        GPUs in one node.
    minutes
        For how long.
    start
        When, as Slurm reads it: ``now``, ``2030-01-31T08:00:00``.
    owners
        Whether the rows of `gpus` are accounts or users.
    partition
        Name of the partition in which the nodes are.
    prefix
        What the names of the reservations begin with.

    Raises
    ------
    InputError
        If nobody has a whole node, or a name has characters that a shell or Slurm would read
        otherwise.
    """
    size = whole("gpus_per_node", gpus_per_node, 1, integral=True)
    length = whole("minutes", minutes, 1, integral=True)
    owner = choice("owners", owners, ("accounts", "users")).capitalize()
    where = f"StartTime={_word(start)} Duration={length} PartitionName={_word(partition)}"
    check_gpus(gpus)
    lines, left = list[str](), list[str]()
    for name, row in gpus.iterrows():
        for kind, has in row.items():
            nodes = int((float(has) + 1e-6) // size)
            if nodes:
                called = f"{_word(prefix)}_{_word(name)}_{_word(kind)}"
                lines.append(
                    f"scontrol create reservation ReservationName={called} {owner}={_word(name)} "
                    f"{where} NodeCnt={nodes} Features={_word(kind)}"
                )
            if (rest := float(has) - nodes * size) > 1e-6:
                left.append(f"# {_word(name)}: {rest:g} GPUs of {_word(kind)} fill no node")
    if not lines:
        raise InputError(f"Nobody has a whole node of {size} GPUs.")
    return lines + left


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


def placement_groups(
    decided: RoundDecision, gpus_per_machine: int, *, label: str = "ray.io/accelerator-type"
) -> dict[str, dict[str, Any]]:
    """Return arguments of ``ray.util.placement_group`` for each job that has devices.

    A bundle for each machine, with the GPUs that the job has there, and a selector of nodes of its
    type. ``STRICT_PACK`` where it lies on one machine, ``STRICT_SPREAD`` where every bundle must
    be on a machine of its own.

    Parameters
    ----------
    decided
        Of `apportion.solve_round`.
    gpus_per_machine
        Of the cluster that it was asked about.
    label
        Label of nodes that says their type.

    Raises
    ------
    InputError
        If it is no decision, or the GPUs of a machine are no whole number above 0.
    """
    if not hasattr(decided, "plan"):
        raise InputError(f"decided is {written(decided)}; it must be what solve_round returns.")
    whole("gpus_per_machine", gpus_per_machine, 1)
    found: dict[str, dict[str, Any]] = {}
    for gang in decided.plan.assignments:
        on_machine = Counter(device // gpus_per_machine for device in gang.devices)
        sizes = [on_machine[machine] for machine in sorted(on_machine)]
        found[str(gang.job)] = {
            "bundles": [{"GPU": size} for size in sizes],
            "strategy": "STRICT_PACK" if len(sizes) == 1 else "STRICT_SPREAD",
            "bundle_label_selector": [{label: gang.accelerator} for _ in sizes],
            "name": str(gang.job),
        }
    return found
