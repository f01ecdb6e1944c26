"""One simulation on which a part is checked, and how it is said that a part fails its contract."""

from __future__ import annotations

from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, NoReturn

from apportion.own_code import place_of, written_in
from apportion.sim.simulation import simulate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from apportion.cluster import Cluster
    from apportion.sim.elastic_workload import ElasticWorkload
    from apportion.sim.run import Run
    from apportion.sim.workload import Workload


_REGISTRIES = {
    "mechanism": "apportion.mechanisms:MECHANISMS",
    "network": "apportion.sim.network.registry:NETWORKS",
    "placement": "apportion.mechanism.placements:PLACEMENTS",
    "gate": "apportion.mechanism.gates:GATES",
    "order": "apportion.mechanism.orders:ORDERS",
}
"""Where parts stand that settings name."""


@dataclass(frozen=True, eq=False)
class RunCase:
    """One simulation on which a part is checked.

    Attributes
    ----------
    part
        What is checked: who decides, a network, a mechanism, a placement, ...
    decider, workload, cluster, settings
        As `simulate` takes them.
    text
        How to get workload and cluster again, as code.
    """

    part: Any
    decider: Any
    workload: Workload | ElasticWorkload
    cluster: Cluster
    settings: Mapping[str, Any] = field(default_factory=dict)
    text: str = "workload, cluster"

    def run(self) -> Run:
        """Simulate; whatever stops it is a failure of the part."""
        try:
            return simulate(self.decider, self.workload, self.cluster, **self.settings)
        except Exception as error:  # what the part's author is to be told, whatever it is
            self.fail("able to run", f"{type(error).__name__}: {error}", error)

    def fail(self, broken: str, numbers: str, error: BaseException | None = None) -> NoReturn:
        """Say what the part breaks, with the numbers, on which input, and where it is written.

        Raises
        ------
        AssertionError
            Always.
        """
        settings = "".join(f", {name}={called(value)}" for name, value in self.settings.items())
        call = f"simulate({called(self.decider)}, {self.text}{settings})"
        fail(self.part, broken, numbers, text=call, error=error)


def part_of(decider: Any, settings: Mapping[str, Any]) -> Any:
    """Return which part it is that a check is of: one of one's own, or what the settings name."""
    named = [_found(name, settings[name]) for name in _REGISTRIES if name in settings]
    decides = getattr(decider, "scheduler", decider)  # what of one's own decides by itself
    held = vars(decides).values() if hasattr(decides, "__dict__") else ()
    parts = [*named, decides, *held]
    return next((each for each in parts if written_in(each) is not None), parts[0])


def _found(name: str, value: Any) -> Any:
    """Return the part that a setting names; of a network its model and not its maker."""
    if not isinstance(value, str):
        return value
    found = resolve_name(_REGISTRIES[name])[value]
    return found({}) if name == "network" else found


def called(part: Any) -> str:
    """Return what messages call a part: its class, and what it is made of where that is told."""
    if isinstance(part, type):
        return part.__qualname__
    kind = type(part)
    tells = any("__repr__" in vars(each) for each in kind.__mro__[:-1])
    return repr(part) if tells else f"{kind.__qualname__}()"


def fail(
    part: Any,
    broken: str,
    numbers: str,
    *,
    text: str | None = None,
    error: BaseException | None = None,
) -> NoReturn:
    """Raise for a part that breaks its contract.

    Parameters
    ----------
    part
        What is checked.
    broken
        What it is not.
    numbers
        By which that shows.
    text
        The input on which it shows, as code.
    error
        What it raises there.

    Raises
    ------
    AssertionError
        Always. It says where the error comes from in code of one's own, or where the part stands.
    """
    lines = [f"{called(part)} is not {broken}: {numbers.rstrip('.')}."]
    lines += [] if text is None else [f"Input: {text}."]
    raised, written = None if error is None else place_of(error), written_in(part)
    if raised is not None:
        lines.append(f"Raised in {raised}.")
    elif written is not None:
        lines.append(f"Written in {written}.")
    raise AssertionError("\n".join(lines)) from error
