"""GPUs by the names that clusters give them: what data sheets say of each, and what an hour costs.

Figures are those of the makers' data sheets for the form that is sold in servers (SXM or OAM where
there is one), of one GPU as a job sees it: a K80 board holds two, an MI250X module counts as one.
Arithmetic is dense, without the factor of two for sparse matrices; `fp16` is that of matrix units
where there are any, sums in 32 bits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from apportion.checks import choice

if TYPE_CHECKING:
    import pandas as pd

_NAN = math.nan


class Accelerator(NamedTuple):
    """One type of GPU.

    Attributes
    ----------
    memory_gb
        Memory, GB.
    bandwidth_gb_per_s
        Bandwidth of the memory, GB/s.
    fp32, tf32, fp16, fp8
        Dense arithmetic, 10^12 operations/s; NaN where the GPU has no such units.
    watts
        Largest power, W.
    usd_per_hour
        List price of an hour on demand, US dollars; NaN where none is known here.
    year
        Of its release.
    priced
        Where the price is from, and when it was listed.
    """

    memory_gb: float
    bandwidth_gb_per_s: float
    fp32: float
    tf32: float
    fp16: float
    fp8: float
    watts: float
    usd_per_hour: float
    year: int
    priced: str = ""


_GAVEL = "Google Cloud, 2020 (Gavel)"

_SLICE = re.compile(r"(.+)[-_]([12347])g\.(\d+)gb")
_PROFILES = {(1, 1), (1, 2), (2, 2), (3, 4), (4, 4), (7, 8)}
"""Sevenths of the processors and eighths of the memory that MIG gives to one slice."""
_WITH_MIG = {"a100", "a100_80gb", "h100", "h200", "b200"}


class _Sheets(Mapping[str, Accelerator]):
    """Whole GPUs by name; slices of them, ``a100-1g.5gb``, are known but not listed."""

    def __init__(self, whole: dict[str, Accelerator]) -> None:
        self._whole = whole

    def __getitem__(self, name: str) -> Accelerator:
        return self._whole[name] if name in self._whole else self._slice(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._whole)

    def __len__(self) -> int:
        return len(self._whole)

    def _slice(self, name: str) -> Accelerator:
        """Return a part of a GPU; a KeyError where MIG makes no such part."""
        found = _SLICE.fullmatch(name) if isinstance(name, str) else None
        if found is None or found[1] not in _WITH_MIG:
            raise KeyError(name)
        gpu, sevenths, gb = self._whole[found[1]], int(found[2]), int(found[3])
        eighths = 8 * gb / gpu.memory_gb
        # Makers round to whole GB: 18 GB are an eighth of 141.
        if (sevenths, round(eighths)) not in _PROFILES or abs(eighths - round(eighths)) > 0.05:
            raise KeyError(name)
        speed, memory = sevenths / 7, round(eighths) / 8
        bound = max(speed, memory)  # what nobody else can have of the GPU
        return gpu._replace(
            memory_gb=float(gb),
            bandwidth_gb_per_s=gpu.bandwidth_gb_per_s * memory,
            **{bits: getattr(gpu, bits) * speed for bits in ("fp32", "tf32", "fp16", "fp8")},
            watts=gpu.watts * bound,
            usd_per_hour=gpu.usd_per_hour * bound,
        )


ACCELERATORS: Mapping[str, Accelerator] = _Sheets(
    {
        "k80": Accelerator(12, 240, 4.37, _NAN, 4.37, _NAN, 150, 0.45, 2014, _GAVEL),
        "p100": Accelerator(16, 732, 10.6, _NAN, 21.2, _NAN, 300, 1.46, 2016, _GAVEL),
        "v100": Accelerator(16, 900, 15.7, _NAN, 125, _NAN, 300, 2.48, 2017, _GAVEL),
        "t4": Accelerator(16, 320, 8.1, _NAN, 65, _NAN, 70, 0.35, 2018, "Google Cloud, 2024"),
        "a10g": Accelerator(24, 600, 31.5, 35, 70, _NAN, 300, 1.01, 2021, "AWS g5.xlarge, 2024"),
        "l4": Accelerator(24, 300, 30.3, 60, 121, 242, 72, 0.80, 2023, "AWS g6.xlarge, 2024"),
        "l40s": Accelerator(48, 864, 91.6, 183, 362, 733, 350, 1.86, 2023, "AWS g6e.xlarge, 2024"),
        "a100": Accelerator(40, 1555, 19.5, 156, 312, _NAN, 400, 4.10, 2020, "AWS p4d / 8, 2024"),
        "a100_80gb": Accelerator(
            80, 2039, 19.5, 156, 312, _NAN, 400, 5.12, 2020, "AWS p4de / 8, 2024"
        ),
        "h100": Accelerator(80, 3350, 67, 494, 989, 1979, 700, 12.29, 2022, "AWS p5 / 8, 2024"),
        "h200": Accelerator(141, 4800, 67, 494, 989, 1979, 700, _NAN, 2024),
        "b200": Accelerator(180, 7700, 75, 1125, 2250, 4500, 1000, _NAN, 2025),
        "mi250x": Accelerator(128, 3277, 47.9, _NAN, 383, _NAN, 560, _NAN, 2021),
        "mi300x": Accelerator(192, 5300, 163.4, 653.7, 1307, 2615, 750, _NAN, 2023),
    }
)
"""Types of GPUs by name, and the slices of them that MIG makes, as ``a100-1g.5gb``.

A slice ``Kg.Mgb`` has K sevenths of the arithmetic and, of the memory and its bandwidth, M GB in
eighths of the GPU's (NVIDIA, Multi-Instance GPU User Guide, table of profiles). It draws and costs
the larger of both parts: seven of ``1g`` make up a GPU.
"""


def is_slice(name: str) -> bool:
    """Tell whether a name stands for a part of a GPU, which knows no peer: gangs need whole ones.

    Examples
    --------
    >>> is_slice("a100-1g.5gb"), is_slice("a100"), is_slice("a100-5g.25gb")
    (True, False, False)
    """
    return isinstance(name, str) and name in ACCELERATORS and name not in list(ACCELERATORS)


def accelerators() -> pd.DataFrame:
    """Types of GPUs that are known by name, oldest first.

    Returns
    -------
    DataFrame
        Indexed by ``accelerator``, a column for each attribute of `Accelerator`.

    Examples
    --------
    >>> import apportion as ap
    >>> ap.accelerators().loc["h100", "memory_gb"]
    np.float64(80.0)
    """
    import pandas as pd

    rows = {name: each._asdict() for name, each in ACCELERATORS.items()}
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("accelerator")
    return table.sort_values("year", kind="stable").astype({"memory_gb": float})


def speed_ratios(name: str, reference: str) -> tuple[float, float]:
    """How fast a type is relative to another at either end of the roofline.

    What is bound by memory is as fast as the bandwidths say, what is bound by arithmetic as fast as
    the operations in 16 bits: the roofline model (Williams et al., CACM 2009) for code that reaches
    the same part of either roof on both.

    Returns
    -------
    tuple of float
        For what is bound by memory, bandwidth over bandwidth; for what is bound by arithmetic,
        operations over operations. Either may be the larger.

    Raises
    ------
    InputError
        For a name that is not in `ACCELERATORS`.
    """
    for each in (name, reference):
        choice("accelerator", each, ACCELERATORS)
    new, old = ACCELERATORS[name], ACCELERATORS[reference]
    return new.bandwidth_gb_per_s / old.bandwidth_gb_per_s, new.fp16 / old.fp16
