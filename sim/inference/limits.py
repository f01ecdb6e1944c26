"""What an SLO limits: percentiles of the times of requests, counted."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from apportion.checks import number
from apportion.errors import InputError, written

if TYPE_CHECKING:
    from apportion.sim.inference.served_model import ServedModel
    from apportion.types import Ints

FIGURES = {
    "delay": "from arrival until its first iteration begins",
    "ttft": "time to first token, from arrival to the end of its first iteration",
    "tpot": "time per output token after the first; of requests with more than one",
    "request": "from arrival to end",
}
"""Times of a request, of which an SLO may limit percentiles: ``p99_ttft_s``."""

_LIMIT = re.compile(rf"p(\d{{1,2}}(?:\.\d+)?|100)_({'|'.join(FIGURES)})_s")


class ServingLimits:
    """An SLO: most seconds of percentiles, ``{"p99_ttft_s": 2.0, "p95_tpot_s": 0.05}``.

    The percentile p is met if at least p % of the requests take no longer: counted, without
    interpolation. ``p100`` is all.

    Parameters
    ----------
    slo
        As above; see `FIGURES`.
    model, asked
        The requests.

    Raises
    ------
    InputError
        For names that are no percentiles of a figure, and no seconds.
    """

    def __init__(self, slo: Mapping[str, float], model: ServedModel, asked: pd.DataFrame) -> None:
        if not isinstance(slo, Mapping) or not slo:
            raise InputError(
                f"The SLO is {written(slo)}; give seconds of percentiles, {{'p99_ttft_s': 2.0}}."
            )
        self.bounds: dict[str, tuple[float, str, float]] = {}
        self._arrival_s = asked["arrival_s"].to_numpy(dtype=np.float64).tolist()
        self._steps = steps_of(model, asked).tolist()
        several = sum(steps > 0 for steps in self._steps)
        self.may_miss: dict[str, int] = {}
        for name, value in slo.items():
            found = _LIMIT.fullmatch(str(name))
            if found is None or not float(found[1]):
                raise InputError(
                    f"The SLO limits {written(name)}; it must be a percentile of "
                    f"{', '.join(f'{each}_s' for each in FIGURES)}, such as p99_ttft_s."
                )
            share, figure = float(found[1]) / 100, found[2]
            if figure == "tpot" and not model.by_tokens:
                raise InputError(f"{name} is of language models; this one has no decode.")
            total = several if figure == "tpot" else len(self._arrival_s)
            self.bounds[str(name)] = (share, figure, number(f"The SLO {name}", value, strict=True))
            self.may_miss[str(name)] = total - math.ceil(share * total * (1 - 1e-12))
        self.missed = dict.fromkeys(self.bounds, 0)

    def late(self, place: int, start_s: float, first_s: float, finish_s: float) -> bool:
        """Count a request that has ended; tell whether more miss the SLO than may."""
        arrival_s, steps = self._arrival_s[place], self._steps[place]
        over = False
        for name, (_, figure, bound) in self.bounds.items():
            if figure == "tpot":
                took = (finish_s - first_s) / steps if steps else 0.0
            else:
                end_s = {"delay": start_s, "ttft": first_s, "request": finish_s}[figure]
                took = end_s - arrival_s
            if took > bound + 1e-9 * max(finish_s, 1.0):
                self.missed[name] += 1
                over |= self.missed[name] > self.may_miss[name]
        return over

    def reached(self, requests: pd.DataFrame) -> pd.DataFrame:
        """Return each limit, what requests of a run have reached of it, and whether it is met."""
        rows = []
        for name, (share, figure, bound) in self.bounds.items():
            values = requests[f"{figure}_s"].dropna().to_numpy(dtype=np.float64)
            at = float(np.quantile(values, share, method="inverted_cdf")) if values.size else 0.0
            slack = 1e-9 * max(float(requests["finish_s"].max()), 1.0)
            rows.append(
                {"figure": name, "limit_s": bound, "reached_s": at, "met": at <= bound + slack}
            )
        return pd.DataFrame(rows).set_index("figure")


def steps_of(model: ServedModel, asked: pd.DataFrame) -> Ints:
    """Return how many steps each request needs after its first iteration."""
    if not model.by_tokens:
        return np.zeros(len(asked), dtype=np.intp)
    tokens: Ints = asked["generated_tokens"].to_numpy(dtype=np.intp)
    return np.maximum(tokens - 1, 0)
