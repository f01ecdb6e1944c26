"""What is told of speeds in a simulation, out of its settings or given by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apportion.errors import InputError, written
from apportion.sim.beliefs import Agnostic, Told
from apportion.sim.beliefs.completed_pairs import CompletedPairs
from apportion.sim.beliefs.estimated import Estimated

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apportion.sim.beliefs import Beliefs

__all__ = ["chosen_beliefs"]


def chosen_beliefs(given: Beliefs | None, settings: dict[str, Any]) -> Beliefs:
    """Return what is told of speeds, out of the settings unless it is given by itself.

    Parameters
    ----------
    given
        What was given by itself, if anything was.
    settings
        As `apportion.sim.settings.settings_for` returns them; what runs do not record is taken
        out, and what was given by itself is written down.

    Raises
    ------
    InputError
        If it is said in both ways, or pairs are estimated beside other than told speeds.
    """
    if given is not None and not hasattr(given, "start"):
        raise InputError(
            f"beliefs is {written(given)}; it must be Told(), Agnostic(), Estimated() or another "
            f"thing with a method start."
        )
    estimates = settings.pop("pair_estimates", None)
    if isinstance(estimates, str):
        settings["pair_estimates"], estimates = estimates, _completed(estimates, settings)
    learns = settings.pop("learn_pairs", False)
    of_pairs, speeds = estimates is not None or learns, settings.get("speeds", "told")
    if given is None and speeds == "told":
        return Told(estimates, learns)
    if given is None and not of_pairs:
        return Agnostic() if speeds == "agnostic" else _estimated(settings)
    if given is None or of_pairs or speeds != "told":
        raise InputError(
            "pair_estimates and learn_pairs go with speeds='told' only, and none of the three with "
            "beliefs=, which says all of it. Write beliefs=Told(pair_estimates, learn_pairs) or "
            "leave the others out."
        )
    settings.pop("speeds", None)
    settings["beliefs"] = repr(given)
    return given


def _completed(source: Any, settings: Mapping[str, Any]) -> CompletedPairs:
    """Return estimates of pairs by name."""
    count = settings.get("references")
    many = {} if count is None else {"references": count}
    return CompletedPairs(source=source, seed=settings["seed"], **many)


def _estimated(settings: dict[str, Any]) -> Estimated:
    return Estimated(settings["references"], settings["optimism"], seed=settings["seed"])
