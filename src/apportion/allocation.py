"""The allocation: what `solve` returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from apportion.allocation_files import fields_of, from_json, to_json, to_plain
from apportion.csv_cells import to_csv
from apportion.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

__all__ = ["Allocation"]


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
        shares as they are. Where the objective has a kink they lie between the loss by a GPU less
        and the gain by a GPU more; of all that prove the objective, those with the least sum of
        squares over single GPUs, so that they are the same from every solver and in every order.
    gap
        Certified relative distance of the objective from the optimum, recomputed from the prices.
    status
        "optimal", or "optimal_inaccurate" where the gap is above 1e-6.
    policy
        The policy, as it would be written.
    message
        What a reader should know beside the numbers.
    stats
        Jobs, classes of identical jobs, options, solver, seconds by stage.
    """

    X: pd.DataFrame
    throughput: pd.Series
    objective: float
    prices: pd.Series
    gap: float
    status: str
    policy: str
    unit: str = ""
    message: str = ""
    stats: dict[str, Any] = field(default_factory=dict)

    def to_frame(self) -> pd.DataFrame:
        """Return one line per row and option: its labels and its ``share`` of time."""
        levels = list(range(self.X.columns.nlevels))
        names = ["option"] if self.X.columns.nlevels == 1 else ["accelerator", "variant"]
        frame = self.X.rename_axis(index="row")
        frame.columns = frame.columns.set_names(names)
        stacked = cast("pd.Series", frame.stack(levels, future_stack=True))
        return stacked.rename("share").reset_index()

    def to_parquet(self, path: str | Path) -> None:
        """Write `to_frame` as Parquet; job ids as text."""
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
        text = to_json(self)
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def to_csv(self, path: str | Path | None = None) -> str:
        """Return `to_frame` as csv, and write it to `path` if given.

        The columns are ``row``, ``option`` (or ``accelerator`` and ``variant``) and ``share``,
        with all its digits. A text that a spreadsheet would take for a formula has an apostrophe
        before it (`apportion.csv_cells`).
        """
        text = to_csv(self.to_frame(), index=False)
        if path is not None:
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
        if isinstance(text, Path):
            try:
                text = text.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise InputError(f"Cannot read {text}: {error}.") from error
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
        table = self.X.copy()
        column = ("steps/s", *[""] * (table.columns.nlevels - 1))
        table[column if len(column) > 1 else "steps/s"] = self.throughput.reindex(table.index)
        prices = ", ".join(f"{name} {price:.4g}" for name, price in self.prices.items())
        lines = [
            f"{self.policy}: {self.status}, objective {self.objective:.6g}{unit}, "
            f"gap {self.gap:.1e}",
            table.to_string(max_rows=20, float_format=lambda value: f"{value:.4g}"),
            f"prices of one more GPU: {prices}",
        ]
        return "\n".join([*lines, self.message] if self.message else lines)

    def _repr_html_(self) -> str:
        head, *_ = repr(self).splitlines()
        table = self.X.to_html(max_rows=20, float_format="{:.4g}".format, escape=True)
        return f"<p>{escape(head)}</p>{table}"
