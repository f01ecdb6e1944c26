"""A decision as placement groups of Ray."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from apportion.checks import whole
from apportion.errors import InputError, written

if TYPE_CHECKING:
    from apportion.sim.one_round.decision import RoundDecision


def placement_groups(
    decided: RoundDecision, gpus_per_machine: int, *, label: str = "ray.io/accelerator-type"
) -> dict[str, dict[str, Any]]:
    """Return arguments of ``ray.util.placement_group`` for each job that has devices.

    A bundle for each machine, with the GPUs that the job has there, and a selector of nodes of its
    type. ``STRICT_PACK`` where it lies on one machine, ``STRICT_SPREAD`` where every bundle must
    be on a machine of its own. Jobs that share devices have equal parts of them.

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
        sizes = [on_machine[machine] / len(gang.jobs) for machine in sorted(on_machine)]
        for job in gang.jobs:
            found[str(job)] = {
                "bundles": [{"GPU": size} for size in sizes],
                "strategy": "STRICT_PACK" if len(sizes) == 1 else "STRICT_SPREAD",
                "bundle_label_selector": [{label: gang.accelerator} for _ in sizes],
                "name": str(job),
            }
    return found
