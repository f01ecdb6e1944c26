"""Small simulations on which parts are checked, and how it is said that one fails its contract."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn

import numpy as np

from apportion.cluster import Cluster
from apportion.errors import InputError, unknown_name, written
from apportion.own_code import place_of, written_in
from apportion.sim.elastic.generate import generate_elastic_workload
from apportion.sim.generators.generate import generate_workload
from apportion.sim.generators.presets import (
    generate_communicating_workload,
    generate_contended_workload,
    generate_rack_workload,
)
from apportion.sim.simulation import simulate
from apportion.sim.workload_tables import present_types

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

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


Jobs = Literal["many", "one", "few"]
On = tuple["Workload | ElasticWorkload", "Cluster | Mapping[str, int] | str"]
"""A workload and its cluster, as `apportion.simulate` takes them."""


class Drawn(NamedTuple):
    """A workload and its cluster, and how to get them again, as code."""

    workload: Workload | ElasticWorkload
    cluster: Cluster
    text: str

    @classmethod
    def of(cls, on: On | None, kind: str, **how: Any) -> Drawn:
        """Return what was given, or what `drawn` draws."""
        if on is not None:
            return cls(*workload_and_cluster(on), "workload, cluster")
        given = "".join(f", {name}={value!r}" for name, value in how.items())
        workload, cluster = drawn(kind, **how)
        return cls(workload, cluster, f"*apportion.testing.run_case({kind!r}{given})")


def workload_and_cluster(on: On) -> tuple[Workload | ElasticWorkload, Cluster]:
    """Return a workload and a cluster, or refuse what is neither."""
    both: Any = on if isinstance(on, (tuple, list)) else ()
    if len(both) != 2 or not hasattr(both[0], "jobs"):
        raise InputError(f"on is {written(on)}; it must be (workload, cluster).")
    return both[0], Cluster.of(both[1])


def drawn(
    kind: str, seed: int = 0, *, gangs: bool = True, jobs: Jobs = "many"
) -> tuple[Workload | ElasticWorkload, Cluster]:
    """Return the workload of a check, and the cluster that it runs on.

    Some jobs come twice at once, equal in everything.

    Parameters
    ----------
    kind
        ``"types"``: jobs of a few rounds on three types. ``"racks"``: jobs of some leases on racks
        of one type. ``"sending"``: iterations that share GPUs and links. ``"links"``: gangs with
        communication profiles. ``"elastic"``: jobs of any number of GPUs.
    seed
        Of what is drawn.
    gangs
        Whether there are jobs with several GPUs, on types and racks.
    jobs
        ``"one"``: the first alone. ``"few"``: up to four that fit one machine, on this machine.

    Raises
    ------
    InputError
        For another kind.
    """
    kinds: dict[str, Any] = {
        "types": _on_types,
        "racks": _on_racks,
        "sending": _sending,
        "links": _on_links,
        "elastic": _elastic,
    }
    if kind not in kinds:
        raise unknown_name("kind of workload", kind, kinds)
    workload, cluster = kinds[kind](seed, gangs)
    table = _with_twins(workload.jobs)
    if jobs == "one":
        table = table.iloc[:1]
    elif jobs == "few":
        per_machine, kind = cluster.largest_machine, cluster.accelerators[0]
        table = table[table["gpus" if workload.elastic else "scale_factor"] <= per_machine].iloc[:4]
        racks = None if cluster.machines_per_rack is None else 1
        gpus = {name: per_machine * (name == kind) for name in cluster.gpus}
        cluster = present_types(replace(cluster, gpus=gpus, machines_per_rack=racks))
    return replace(workload, jobs=table), cluster


def _on_types(seed: int, gangs: bool) -> tuple[Workload, Cluster]:
    """Draw jobs of a few rounds each."""
    made = generate_workload(
        jobs=14,
        seed=seed,
        jobs_per_hour=40,
        scale_factors={1: 0.6, 2: 0.3, 4: 0.1} if gangs else "single",
        weights="gavel",
        deadlines={50.0: 1.0},
    )
    jobs = made.jobs.assign(
        total_steps=made.jobs["total_steps"] * 0.03,
        entity=np.where(np.arange(len(made)) % 3 == 0, "red", "blue"),
    )
    cluster = Cluster({"v100": 4, "p100": 4, "k80": 8}, gpus_per_machine=4)
    return replace(made, jobs=jobs), cluster


def _on_racks(seed: int, gangs: bool) -> tuple[Workload, Cluster]:
    """Draw jobs of some leases each."""
    made = generate_rack_workload(jobs=24, seed=seed, max_scale_factor=16 if gangs else 1)
    rng = np.random.default_rng(seed)
    jobs = made.jobs.assign(
        total_steps=made.jobs["total_steps"] * 0.3,
        arrival_s=np.sort(rng.integers(0, 40, len(made)) * 600.0),
    )
    return replace(made, jobs=jobs), Cluster.of_racks(2, machines_per_rack=2, gpus_per_machine=4)


def _sending(seed: int, gangs: bool) -> tuple[Workload, Cluster]:
    """Draw jobs of few iterations that fill the GPUs and meet on the links."""
    made = generate_contended_workload(seed=seed, scale=0.01)
    jobs = made.jobs.iloc[:12]
    most = 8 if gangs else 1
    return (
        replace(made, jobs=jobs.assign(scale_factor=np.minimum(jobs["scale_factor"], most))),
        Cluster({"v100": 8}, gpus_per_machine=2),
    )


def _on_links(seed: int, gangs: bool) -> tuple[Workload, Cluster]:
    """Draw gangs of which several share the links of twelve servers."""
    made = generate_communicating_workload(6, seed=seed, jobs_per_hour=30)
    jobs = made.jobs.assign(total_steps=made.jobs["total_steps"] * 0.1)
    return replace(made, jobs=jobs), Cluster({"a100": 12}, gpus_per_machine=2)


def _elastic(seed: int, gangs: bool) -> tuple[ElasticWorkload, Cluster]:
    """Draw elastic jobs that want more GPUs than there are."""
    made = generate_elastic_workload(6, hours=1.0, seed=seed)
    return made, Cluster({"t4": 8}, gpus_per_machine=4)


def _with_twins(jobs: pd.DataFrame) -> pd.DataFrame:
    """Repeat every third job, right behind it, and give all new names."""
    copies = np.where(np.arange(len(jobs)) % 3 == 0, 2, 1)
    repeated = jobs.loc[jobs.index.repeat(copies)]
    return repeated.set_axis([f"job-{k}" for k in range(len(repeated))])
