"""The cluster: how many GPUs of each type there are, how they sit in machines, what they cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.checks import label, mapping, number, read_whole, whole
from apportion.cluster.accelerators import ACCELERATORS
from apportion.errors import InputError, unknown_name, written
from apportion.statistics.typeset import as_html

if TYPE_CHECKING:
    from numpy.typing import NDArray

TIERS = ("machine", "rack", "network")
"""Network tiers a gang can lie in, tightest first: one machine, one rack, several racks."""

_MOST_MACHINES = 1_000_000
_GPUS_PER_MACHINE = 4


@dataclass(frozen=True)
class Cluster:
    """GPUs by accelerator type, in machines of one type each.

    Parameters
    ----------
    gpus
        Number of GPUs of each accelerator type, e.g. ``{"v100": 8, "k80": 16}``. The order is
        kept: it is the order of the columns of every matrix.
    gpus_per_machine
        GPUs in one machine, of every type or by type: ``{"t4": 4, "a100": 8}`` or
        ``"t4=4,a100=8"``; types that are left out have 4. The last machine of a type holds the
        remainder. Kept as a number where types do not differ; `machine_size` has that of a type.
    machines_per_rack
        Machines in one rack; ``None`` for a single rack.
    prices_per_gpu_hour
        US dollars for an hour of one GPU, by type. Types that are left out take that of
        `apportion.accelerators`, or have no price (NaN).

    Raises
    ------
    InputError
        If a count is not a whole number >= 0, if no GPU is left, or if a price names a type that
        the cluster does not have.
    """

    gpus: Mapping[str, int]
    gpus_per_machine: int | Mapping[str, int] | str = _GPUS_PER_MACHINE
    machines_per_rack: int | None = None
    prices_per_gpu_hour: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.gpus, Mapping) or not self.gpus:
            raise InputError("A cluster needs at least one accelerator type, e.g. {'v100': 8}.")
        gpus = {
            label("accelerator type", name): whole(f"GPUs of {written(name)}", n, integral=True)
            for name, n in self.gpus.items()
        }
        if len(gpus) < len(self.gpus):
            raise InputError(f"The cluster names an accelerator type twice: {list(gpus)}.")
        if sum(gpus.values()) == 0:
            raise InputError(f"The cluster has no GPUs: every count of {gpus} is zero.")
        object.__setattr__(self, "gpus", gpus)
        object.__setattr__(self, "gpus_per_machine", self._sizes(self.gpus_per_machine))
        if self.machines_per_rack is not None:
            racks = whole("machines_per_rack", self.machines_per_rack, 1, integral=True)
            object.__setattr__(self, "machines_per_rack", racks)
        prices = mapping("prices_per_gpu_hour", self.prices_per_gpu_hour)
        for name, price in prices.items():
            if name not in gpus:
                raise unknown_name("accelerator in prices_per_gpu_hour", name, gpus)
            number(f"The price of {name!r}", price)
        known = {name: ACCELERATORS[name].usd_per_hour for name in gpus if name in ACCELERATORS}
        listed = {name: price for name, price in known.items() if not math.isnan(price)}
        object.__setattr__(self, "prices_per_gpu_hour", listed | prices)

    def _sizes(self, told: int | Mapping[str, int] | str) -> int | Mapping[str, int]:
        """Return the GPUs of a machine: one number, or by type where types differ."""
        if isinstance(told, str):
            told = _counts("gpus_per_machine", "GPUs", told)
        if not isinstance(told, Mapping):
            return whole("gpus_per_machine", told, 1, integral=True)
        for name in told:
            if name not in self.gpus:
                raise unknown_name("accelerator in gpus_per_machine", name, self.gpus)
        given = {name: told.get(name, _GPUS_PER_MACHINE) for name in self.gpus}
        sizes = {
            name: whole(f"gpus_per_machine of {written(name)}", size, 1, integral=True)
            for name, size in given.items()
        }
        first, *others = {*sizes.values()}
        return sizes if others else first

    @classmethod
    def of(cls, value: Cluster | Mapping[str, int] | str) -> Cluster:
        """Make a cluster of what users write: a Cluster, a mapping, or ``"v100=8,k80=16"``."""
        if isinstance(value, Cluster):
            return value
        if isinstance(value, str):
            return cls.parse(value)
        if isinstance(value, Mapping):
            return cls(value)
        raise InputError(
            f"A cluster is a Cluster, a mapping of GPU counts, or text such as 'v100=8,k80=16'; "
            f"got {type(value).__name__}."
        )

    @classmethod
    def parse(cls, text: str, **options: Any) -> Cluster:
        """Read ``"v100=8,p100=16"``; `options` are the other arguments of the class."""
        return cls(_counts("cluster", "GPUs", text), **options)

    @classmethod
    def of_racks(
        cls,
        racks: int | Mapping[str, int] | str,
        *,
        machines_per_rack: int = 8,
        gpus_per_machine: int | Mapping[str, int] | str = 8,
        accelerator: str | None = None,
    ) -> Cluster:
        """Make a cluster of whole racks, each of one accelerator type.

        Dally's clusters are 2, 4, 8 or 16 racks of 8 machines of 8 GPUs.

        Parameters
        ----------
        racks
            Racks of one type, or of each: ``{"v100": 2, "k80": 1}`` or ``"v100=2,k80=1"``.
        machines_per_rack, gpus_per_machine
            Shape of a rack.
        accelerator
            The type if there is one, ``"gpu"`` where left out.

        Raises
        ------
        InputError
            If a number is not whole and above 0, or types are named in both ways.
        """
        if isinstance(racks, str):
            racks = _counts("racks", "racks", racks)
        if not isinstance(racks, Mapping):
            name = "gpu" if accelerator is None else accelerator
            racks = {label("accelerator type", name): whole("racks", racks, 1, integral=True)}
        elif accelerator is not None:
            raise InputError(
                f"racks={dict(racks)} names the accelerator types; leave out "
                f"accelerator={accelerator!r}."
            )
        machines = whole("machines_per_rack", machines_per_rack, 1, integral=True)
        counts = {
            name: machines * whole(f"racks of {written(name)}", n, 1, integral=True)
            for name, n in racks.items()
        }
        shape = cls(counts, gpus_per_machine, machines)
        gpus = {name: shape.machine_size(name) * n for name, n in shape.gpus.items()}
        return replace(shape, gpus=gpus)

    def machine_size(self, accelerator: str) -> int:
        """GPUs in one machine of a type."""
        if isinstance(self.gpus_per_machine, Mapping):
            return self.gpus_per_machine.get(accelerator, _GPUS_PER_MACHINE)
        return int(self.gpus_per_machine)

    @property
    def machine_sizes(self) -> dict[str, int]:
        """GPUs in one machine, by type."""
        return {name: self.machine_size(name) for name in self.gpus}

    @property
    def largest_machine(self) -> int:
        """GPUs in a machine of the type that has the largest ones, of those that have GPUs."""
        return max(self.machine_size(name) for name, count in self.gpus.items() if count)

    def rack_size(self, accelerator: str) -> int | None:
        """GPUs in one rack of a type; ``None`` where there is but one."""
        if self.machines_per_rack is None:
            return None
        return self.machine_size(accelerator) * self.machines_per_rack

    @property
    def gpus_per_rack(self) -> int | None:
        """GPUs in a rack of the largest machines; ``None`` where there is but one."""
        racks = self.machines_per_rack
        return None if racks is None else racks * self.largest_machine

    def racks(self, accelerator: str) -> list[NDArray[np.int64]]:
        """GPUs in each machine of one type, by rack.

        Raises
        ------
        InputError
            If the machines do not fill whole racks, or the GPUs whole machines; it says with how
            many GPUs they would.
        """
        machines, each = self.machines(accelerator), self.machine_size(accelerator)
        size = self.rack_size(accelerator) or max(self.gpus[accelerator], each)
        if self.gpus[accelerator] % size or self.gpus[accelerator] % each:
            raise InputError(
                f"The {self.gpus[accelerator]} GPUs of type {accelerator!r} do not fill whole "
                f"racks of whole machines ({self.machines_per_rack or 'any number of'} machines of "
                f"{each} GPUs); their number must be a multiple of "
                f"{size if self.machines_per_rack else each}."
            )
        return list(machines.reshape(-1, size // each))

    @property
    def accelerators(self) -> tuple[str, ...]:
        """Names of the accelerator types, in order."""
        return tuple(self.gpus)

    @property
    def counts(self) -> NDArray[np.int64]:
        """GPUs of each type, shape (types,)."""
        return np.array(list(self.gpus.values()), dtype=np.int64)

    @property
    def prices(self) -> NDArray[np.float64]:
        """US dollars per GPU-hour of each type, shape (types,); NaN where unknown."""
        return np.array([self.prices_per_gpu_hour.get(name, np.nan) for name in self.gpus])

    @property
    def total_gpus(self) -> int:
        """GPUs of all types together."""
        return sum(self.gpus.values())

    def machines(self, accelerator: str) -> NDArray[np.int64]:
        """GPUs in each machine of one type, shape (machines,)."""
        if accelerator not in self.gpus:
            raise unknown_name("accelerator", accelerator, self.gpus)
        each = self.machine_size(accelerator)
        full, rest = divmod(self.gpus[accelerator], each)
        if full > _MOST_MACHINES:
            raise InputError(
                f"The cluster {self} has {full:,} machines with {accelerator!r}; they can be told "
                f"apart up to {_MOST_MACHINES:,}."
            )
        return np.array([each] * full + [rest] * (rest > 0), dtype=np.int64)

    def _repr_html_(self) -> str:
        rows = [
            {
                "type": name,
                "GPUs": gpus,
                "machines": len(self.machines(name)),
                "GPUs per machine": self.machine_size(name),
                "$ per GPU-hour": self.prices_per_gpu_hour.get(name, float("nan")),
            }
            for name, gpus in self.gpus.items()
        ]
        head = f"{self.total_gpus} GPUs of {len(self.gpus)} types"
        return as_html(head, rows)

    def __str__(self) -> str:
        return ",".join(f"{name}={count}" for name, count in self.gpus.items())


def _counts(what: str, unit: str, text: str) -> dict[str, int]:
    """Read how many there are of each type: ``"v100=8,p100=16"``."""
    if not isinstance(text, str):
        raise InputError(f"The {what} is {written(text)}; write it as 'v100=8,p100=16'.")
    counts: dict[str, int] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, equals, count = (piece.strip() for piece in part.partition("="))
        refused = (
            f"Cannot read {written(part)} in the {what} {written(text)}; write type={unit}, "
            f"e.g. 'v100=8,p100=16'"
        )
        try:
            of_type = read_whole(count)
        except ValueError as error:
            raise InputError(f"{refused}: the {unit} {error}.") from error
        if not (name and equals):
            raise InputError(f"{refused}.")
        if name in counts:
            raise InputError(f"The {what} {written(text)} names {name!r} twice.")
        counts[name] = of_type
    return counts
