"""The cluster: how many GPUs of each type there are, how they sit in machines, what they cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.errors import InputError, unknown_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["DEFAULT_PRICES_PER_GPU_HOUR", "TIERS", "Cluster"]

TIERS = ("machine", "rack", "network")
"""Network tiers a gang can lie in, tightest first: one machine, one rack, several racks."""

DEFAULT_PRICES_PER_GPU_HOUR: Mapping[str, float] = MappingProxyType(
    {"v100": 2.48, "p100": 1.46, "k80": 0.45}
)
"""US dollars per GPU-hour, on demand: Google Cloud's list prices at the time of Gavel (2020)."""


@dataclass(frozen=True)
class Cluster:
    """GPUs by accelerator type, in machines of one type each.

    Parameters
    ----------
    gpus
        Number of GPUs of each accelerator type, e.g. ``{"v100": 8, "k80": 16}``. The order is
        kept: it is the order of the columns of every matrix.
    gpus_per_machine
        GPUs in one machine. The last machine of a type holds the remainder.
    machines_per_rack
        Machines in one rack; ``None`` for a single rack.
    prices_per_gpu_hour
        US dollars for an hour of one GPU, by type. Types that are left out take
        `DEFAULT_PRICES_PER_GPU_HOUR`, or have no price (NaN).

    Raises
    ------
    InputError
        If a count is not a whole number >= 0, if no GPU is left, or if a price names a type that
        the cluster does not have.
    """

    gpus: Mapping[str, int]
    gpus_per_machine: int = 4
    machines_per_rack: int | None = None
    prices_per_gpu_hour: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.gpus, Mapping) or not self.gpus:
            raise InputError("A cluster needs at least one accelerator type, e.g. {'v100': 8}.")
        gpus = {str(name): _count(f"GPUs of {name!r}", n, 0) for name, n in self.gpus.items()}
        if sum(gpus.values()) == 0:
            raise InputError(f"The cluster has no GPUs: every count of {gpus} is zero.")
        object.__setattr__(self, "gpus", gpus)
        object.__setattr__(
            self, "gpus_per_machine", _count("gpus_per_machine", self.gpus_per_machine, 1)
        )
        if self.machines_per_rack is not None:
            racks = _count("machines_per_rack", self.machines_per_rack, 1)
            object.__setattr__(self, "machines_per_rack", racks)
        prices = dict(self.prices_per_gpu_hour)
        for name, price in prices.items():
            if name not in gpus:
                raise unknown_name("accelerator in prices_per_gpu_hour", name, gpus)
            number = isinstance(price, (int, float, np.number))
            if not (number and np.isfinite(price) and price >= 0):
                raise InputError(f"The price of {name!r} is {price!r}; it must be a number >= 0.")
        listed = {
            name: DEFAULT_PRICES_PER_GPU_HOUR[name]
            for name in gpus
            if name in DEFAULT_PRICES_PER_GPU_HOUR
        }
        object.__setattr__(self, "prices_per_gpu_hour", listed | prices)

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
        gpus: dict[str, int] = {}
        for part in filter(None, (piece.strip() for piece in text.split(","))):
            name, equals, number = (piece.strip() for piece in part.partition("="))
            if not (name and equals and number.isdecimal()):
                raise InputError(
                    f"Cannot read {part!r} in the cluster {text!r}; write type=GPUs, "
                    f"e.g. 'v100=8,p100=16'."
                )
            if name in gpus:
                raise InputError(f"The cluster {text!r} names {name!r} twice.")
            gpus[name] = int(number)
        return cls(gpus, **options)

    @classmethod
    def of_racks(
        cls,
        racks: int,
        *,
        machines_per_rack: int = 8,
        gpus_per_machine: int = 8,
        accelerator: str = "gpu",
    ) -> Cluster:
        """Make a cluster of whole racks of one accelerator type.

        Dally's clusters are 2, 4, 8 or 16 racks of 8 machines of 8 GPUs.
        """
        size = _count("machines_per_rack", machines_per_rack, 1)
        size *= _count("gpus_per_machine", gpus_per_machine, 1)
        return cls(
            {accelerator: _count("racks", racks, 1) * size},
            gpus_per_machine=gpus_per_machine,
            machines_per_rack=machines_per_rack,
        )

    @property
    def gpus_per_rack(self) -> int | None:
        """GPUs in one rack; ``None`` where there is but one."""
        if self.machines_per_rack is None:
            return None
        return self.gpus_per_machine * self.machines_per_rack

    def racks(self, accelerator: str) -> list[NDArray[np.int64]]:
        """GPUs in each machine of one type, by rack.

        Raises
        ------
        InputError
            If the machines do not fill whole racks, or the GPUs whole machines; it says with how
            many GPUs they would.
        """
        machines = self.machines(accelerator)
        size = self.gpus_per_rack or max(self.gpus[accelerator], self.gpus_per_machine)
        if self.gpus[accelerator] % size or self.gpus[accelerator] % self.gpus_per_machine:
            raise InputError(
                f"The {self.gpus[accelerator]} GPUs of type {accelerator!r} do not fill whole "
                f"racks of whole machines ({self.machines_per_rack or 'any number of'} machines of "
                f"{self.gpus_per_machine} GPUs); their number must be a multiple of "
                f"{size if self.machines_per_rack else self.gpus_per_machine}."
            )
        return list(machines.reshape(-1, size // self.gpus_per_machine))

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
        whole, rest = divmod(self.gpus[accelerator], self.gpus_per_machine)
        return np.array([self.gpus_per_machine] * whole + [rest] * (rest > 0), dtype=np.int64)

    def __str__(self) -> str:
        return ",".join(f"{name}={count}" for name, count in self.gpus.items())


def _count(what: str, value: object, least: int) -> int:
    """Check a whole number, given as any integer type or an integral float."""
    whole = isinstance(value, (int, np.integer, float)) and not isinstance(value, bool)
    if not whole or not np.isfinite(value) or float(value) != int(value) or value < least:  # type: ignore[arg-type,operator,call-overload]
        raise InputError(f"{what} is {value!r}; it must be a whole number >= {least}.")
    return int(value)  # type: ignore[call-overload,no-any-return]
