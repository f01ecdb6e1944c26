"""The allocation: what `solve` returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd

from apportion.allocation_files import fields_of, from_json, to_plain, write_object
from apportion.errors import InputError
from apportion.whole_files import to_csv, writing

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, eq=False, repr=False)
class Allocation:
    """Share of time of every job under every option, and what it amounts to.

    Attributes
    ----------
    X
        Fraction of time in [0, 1]; rows are jobs (or combinations), columns options.
    throughput
        Effective throughput of each job, steps/s.
    objective
        The policy's objective at `X`, in `unit`.
    prices
        What one more GPU of each type would improve the objective by, at the equal and isolated
        shares as they are; of whole decisions what it would improve the relaxation by, in which
        jobs could divide their time. Where the objective has a kink they lie between the loss by a
        GPU less and the gain by a GPU more; of all that prove the objective, those with the least
        sum of squares over single GPUs, so that they are the same from every solver and in every
        order. NaN where there are none: jobs that are served in order, isolated shares.
    gap
        Certified relative distance of the objective from the optimum, recomputed from the prices.
    status
        "optimal", or "optimal_inaccurate" where the gap is above 1e-6, for a whole decision also
        above the gap that was asked for; "time_limit" for one that was not proved in time,
        "fallback" where no solver found any.
    policy
        The policy, as it would be written.
    message
        What a reader should know beside the numbers.
    stats
        Jobs, classes of identical jobs, options, solver, seconds by stage; of whole decisions
        ``proved_by``: "relaxation", "states", "highs", or "dynamic programme".
    integral
        Whether decisions are whole; `choice` then tells the option of each row.
    """

    X: pd.DataFrame
    throughput: pd.Series[float]
    objective: float
    prices: pd.Series[float]
    gap: float
    status: str
    policy: str
    unit: str = ""
    message: str = ""
    stats: dict[str, Any] = field(default_factory=dict)
    integral: bool = False

    @property
    def choice(self) -> pd.Series:
        """Option that each row has, None where it has none; rows are jobs, or combinations.

        Raises
        ------
        InputError
            If the policy gave shares of time, or a row stands for several jobs of several options.
        """
        X = self.X.to_numpy()
        if not self.integral:
            raise InputError(
                f"{self.policy} gives shares of time: there is no one option for a job. Read X."
            )
        if not np.isin(X, (0.0, 1.0)).all():
            raise InputError(
                "The row of a job with a count above 1 has several options, or one for some of "
                "its jobs; read X."
            )
        taken = np.where(X.any(axis=1), X.argmax(axis=1), -1)
        options = self.X.columns.tolist()
        labels = [None if place < 0 else options[place] for place in taken.tolist()]
        chosen = np.empty(len(labels), dtype=object)
        chosen[:] = labels
        return pd.Series(chosen, index=self.X.index, name="choice", dtype=object)

    def to_frame(self) -> pd.DataFrame:
        """Return one line per row and option: its labels and its ``share`` of time.

        Options of several levels have a column for each, by name where they have names. Of whole
        decisions there are only the lines of options that are taken.
        """
        levels = list(range(self.X.columns.nlevels))
        names = ["option"] if self.X.columns.nlevels == 1 else list(self.X.columns.names)
        if len(names) > 1 and None in names:
            names = ["accelerator", "variant"]
        frame = self.X.rename_axis(index="row")
        frame.columns = frame.columns.set_names(names)
        stacked = cast("pd.Series", frame.stack(levels, future_stack=True))
        lines = stacked.rename("share").reset_index()
        return lines[lines["share"] > 0].reset_index(drop=True) if self.integral else lines

    def to_parquet(self, path: str | Path) -> None:
        """Write `to_frame` as Parquet; job ids as text."""
        with writing(path):
            self.to_frame().astype({"row": str}).to_parquet(path, index=False)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as dicts, lists, texts and numbers.

        The keys are those of `apportion.allocation_files`; `from_dict` is the way back.

        Raises
        ------
        InputError
            If a job id is no text, number or tuple of them.
        """
        return to_plain(self)

    def to_json(self, path: str | Path | None = None) -> str:
        """Return `to_dict` as JSON, and write it to `path` if given; `from_json` reads it.

        NaN and infinities are the texts ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``.
        """
        return write_object(to_plain(self), path)

    def to_csv(self, path: str | Path | None = None) -> str:
        """Return `to_frame` as csv, and write it to `path` if given.

        The columns are ``row``, ``option`` (or ``accelerator`` and ``variant``) and ``share``,
        with all its digits. A text that a spreadsheet would take for a formula has an apostrophe
        before it (`apportion.whole_files`).
        """
        text = to_csv(self.to_frame(), index=False)
        if path is not None:
            with writing(path):
                Path(path).write_text(text, encoding="utf-8", newline="")
        return text

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Allocation:
        """Make an allocation of what `to_dict` gave.

        Raises
        ------
        InputError
            If it is not of that format; the message says what is wrong.
        """
        return cls(**fields_of(content))

    @classmethod
    def from_json(cls, text: str | Path) -> Allocation:
        """Make an allocation of what `to_json` gave: the text, or a `Path` to read it from.

        Raises
        ------
        InputError
            If it is not of that format, or there is no such file.
        """
        return cls(**fields_of(from_json(text)))

    def plot(self, ax: Any = None) -> Any:
        """Draw the shares as stacked bars, one per row; needs matplotlib.

        Parameters
        ----------
        ax
            Axes to draw on; new ones by default.

        Returns
        -------
        matplotlib.axes.Axes
        """
        axes = self.X.rename(columns=str).plot.barh(stacked=True, ax=ax, width=0.8)
        axes.invert_yaxis()
        axes.set_xlim(0, 1)
        axes.set(xlabel="share of time", ylabel="", title=self.policy)
        axes.legend(title="option", loc="center left", bbox_to_anchor=(1.0, 0.5))
        return axes

    def __repr__(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        relaxed = ", of the relaxation" if self.integral else ""
        lines = [
            f"{self.policy}: {self.status}, objective {self.objective:.6g}{unit}, "
            f"gap {self.gap:.1e}",
            *(each.to_string(max_rows=20, float_format="{:.4g}".format) for each in self._tables()),
        ]
        if self.written_prices:
            lines.append(f"prices of one more GPU{relaxed}: {self.written_prices}")
        return "\n".join([*lines, self.message] if self.message else lines)

    @property
    def written_prices(self) -> str:
        """The prices in a line, empty where there are none."""
        return ", ".join(f"{name} {price:.4g}" for name, price in self.prices.dropna().items())

    def _tables(self) -> list[pd.DataFrame]:
        """Shares, or the choice where there is one, beside steps/s."""
        if self.integral and np.isin(self.X.to_numpy(), (0.0, 1.0)).all():
            table = self.choice.map(_written, na_action="ignore").fillna("-").to_frame()
        else:
            table = self.X.copy()
        column = ("steps/s", *[""] * (table.columns.nlevels - 1))
        table[column if len(column) > 1 else "steps/s"] = self.throughput.reindex(table.index)
        return [table]

    def _repr_html_(self) -> str:
        head, *_ = repr(self).splitlines()
        how: dict[str, Any] = {"max_rows": 20, "float_format": "{:.4g}".format, "escape": True}
        shown = self._tables() if self.integral else [self.X]
        return f"<p>{escape(head)}</p>{''.join(each.to_html(**how) for each in shown)}"


def _written(option: Any) -> str:
    """Write an option on one line."""
    return ", ".join(map(str, option)) if isinstance(option, tuple) else str(option)
