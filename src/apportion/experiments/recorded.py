"""A comparison read back from its ``run.json``, to be repeated."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from apportion.cluster import Cluster
from apportion.errors import InputError, unknown_name
from apportion.experiments.provenance import INFINITE
from apportion.mechanisms import mechanism_name
from apportion.sim.fingerprint import versions
from apportion.sim.settings import settings_for
from apportion.text_files import read_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_KEYS: Mapping[str, type | tuple[type, ...]] = {
    "policies": list,
    "own": list,
    "cluster": dict,
    "settings": dict,
    "workload": dict,
    "versions": dict,
}


_NAMES = ("mechanism", "placement", "network")
"""Settings that are checked on their own, or only once options in their place are read: what was
made known by a script need not be known here.
"""


@dataclass(frozen=True)
class Recorded:
    """What it takes to repeat a comparison.

    Attributes
    ----------
    file
        Where it was read from.
    policies, cluster, settings
        As `apportion.compare` takes them.
    own
        Which of them were objects of the caller's own, of which a file holds no more than a name.
    origin
        The options of ``apportion compare`` that make the workload; None where it was not told.
    fingerprint
        Of the workload.
    made_with
        Versions of everything that computed.
    """

    file: Path
    policies: list[str]
    own: frozenset[str]
    cluster: Cluster
    settings: dict[str, Any]
    origin: dict[str, Any] | None
    fingerprint: str
    made_with: dict[str, str]

    @property
    def mechanism(self) -> str | None:
        """How decisions were carried out; None where each policy had a mechanism of its own."""
        mechanism = self.settings["mechanism"]
        return None if mechanism is None else str(mechanism)

    def differences(self, fingerprint: str) -> list[str]:
        """Say why a repetition may come to other figures.

        Parameters
        ----------
        fingerprint
            Of the workload as it is made now.
        """
        notes = []
        if fingerprint != self.fingerprint:
            notes.append(f"the workload is no longer the one of {self.file}")
        now = versions()
        changed = [
            f"{name} {before}, now {now.get(name, 'none')}"
            for name, before in self.made_with.items()
            if now.get(name) != before
        ]
        if changed:
            notes.append(f"{self.file} was made with {'; '.join(changed)}")
        return notes


def read_recorded(file: Path) -> Recorded:
    """Read the ``run.json`` of a comparison.

    Raises
    ------
    InputError
        If the file cannot be read or is none.
    """
    content = read_text(file).json()
    for key, kind in _KEYS.items():
        if not isinstance(content, dict) or not isinstance(content.get(key), kind):
            raise InputError(
                f"{str(file)!r} is no run.json that this version of `apportion compare` has "
                f"written: it lacks {key!r}."
            )
    try:
        return _recorded(file, content)
    except (LookupError, TypeError, ValueError) as error:
        raise InputError(f"{str(file)!r} cannot be read as a run.json: {error}") from error


def _recorded(file: Path, content: Mapping[str, Any]) -> Recorded:
    """Turn the content of a file into a comparison.

    Raises
    ------
    LookupError, TypeError, ValueError
        If it is none.
    """
    settings = {
        name: math.inf if value == INFINITE else value
        for name, value in content["settings"].items()
    }
    for name in ("mechanism", "seed"):
        if name not in settings:
            raise InputError(f"{str(file)!r} has no setting {name!r}.")
    if settings["mechanism"] is not None:  # else what is wrong is told when policies are known
        mechanism = settings["mechanism"] = mechanism_name(settings["mechanism"])
        told = {name: value for name, value in settings.items() if name not in _NAMES}
        settings_for((), mechanism, told)  # refuses what is none, and wrong values
    workload, cluster = content["workload"], content["cluster"]
    parts = Cluster.__dataclass_fields__
    for name in cluster:
        if name not in parts:
            raise unknown_name(f"part of the cluster in {str(file)!r}", name, parts)
    origin = workload["origin"]
    if not (origin is None or isinstance(origin, dict)):
        raise InputError(f"{str(file)!r}: the origin of the workload is {origin!r}.")
    return Recorded(
        file=file,
        policies=[str(each) for each in content["policies"]],
        own=frozenset(map(str, content["own"])),
        cluster=Cluster(**cluster),
        settings=settings,
        origin=origin,
        fingerprint=str(workload["fingerprint"]),
        made_with={str(name): str(value) for name, value in content["versions"].items()},
    )
