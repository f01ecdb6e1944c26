"""Changes of a cluster: GPUs that are added or taken away, by type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from apportion.checks import read_whole, whole
from apportion.errors import InputError, unknown_name, written

if TYPE_CHECKING:
    from apportion.cluster import Cluster

Changes = Mapping[str, int | Sequence[int]] | str
"""GPUs by type, one number or several to be tried apart: ``{"a100": [8, 16]}``, "a100=8,16"."""


def read_changes(name: str, given: Changes | None) -> dict[str, list[int]]:
    """Read changes by type.

    Parameters
    ----------
    name
        What messages call them, ``"add"``.
    given
        A mapping, or text: ``"a100=8,16,h100=4"``.

    Raises
    ------
    InputError
        For what cannot be read, and numbers that are not whole and above 0.
    """
    if given is None:
        return {}
    valid = f"{name} is {written(given)}; write types with numbers of GPUs, as 'a100=8,16'."
    pairs: list[tuple[str, Any]] = []
    if isinstance(given, str):
        for part in given.split(","):
            key, equals, count = (each.strip() for each in part.rpartition("="))
            if not equals and not pairs:
                raise InputError(valid)
            try:
                pairs.append((key if equals else pairs[-1][0], read_whole(count, 1)))
            except ValueError as error:
                raise InputError(f"{valid[:-1]}: {error}.") from error
    elif isinstance(given, Mapping):
        for key, counts in given.items():
            several = [counts] if isinstance(counts, int) else counts
            if isinstance(several, str) or not isinstance(several, Sequence):
                raise InputError(valid)
            pairs += [(str(key), each) for each in several]
    else:
        raise InputError(valid)
    found: dict[str, list[int]] = {}
    for key, count in pairs:
        if not key:
            raise InputError(valid)
        found.setdefault(key, []).append(whole(f"{name} of {key!r}", count, 1))
    return found


def changed_clusters(
    cluster: Cluster, add: Changes | None, remove: Changes | None
) -> dict[str, Cluster]:
    """Return the cluster as it is, as ``"today"``, and each changed one by what is changed.

    Raises
    ------
    InputError
        For GPUs that are not there to be removed, and as `read_changes`.
    """
    found = {"today": cluster}
    for key, counts in read_changes("add", add).items():
        for count in counts:
            found[f"+{count} {key}"] = _with(cluster, key, count)
    for key, counts in read_changes("remove", remove).items():
        if key not in cluster.gpus:
            raise unknown_name("accelerator in remove", key, cluster.gpus)
        for count in counts:
            if count > cluster.gpus[key]:
                raise InputError(
                    f"remove takes {count} {key} away, and the cluster {cluster} has "
                    f"{cluster.gpus[key]}."
                )
            found[f"-{count} {key}"] = _with(cluster, key, -count)
    return found


def _with(cluster: Cluster, key: str, count: int) -> Cluster:
    """Return a cluster with so many GPUs more; types of which none is left are gone."""
    gpus = {**cluster.gpus, key: cluster.gpus.get(key, 0) + count}
    left = {name: number for name, number in gpus.items() if number or name != key}
    prices = {name: usd for name, usd in cluster.prices_per_gpu_hour.items() if name in left}
    return replace(cluster, gpus=left, prices_per_gpu_hour=prices)
