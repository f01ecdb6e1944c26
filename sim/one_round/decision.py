"""What one round has come to: who has which devices now, with labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Hashable

    from apportion.allocation import Allocation
    from apportion.mechanism.labelled.plan import RoundPlan

__all__ = ["RoundDecision"]

_COLUMNS = ("accelerator", "racks", "machines", "devices", "status", "shares_with")


@dataclass(frozen=True, eq=False, repr=False)
class RoundDecision:
    """Who has which devices now: what `apportion.solve_round` returns.

    Devices and machines are numbered from 0 within their accelerator type, racks likewise.

    Attributes
    ----------
    plan
        The gangs, and who is new: `RoundPlan.started`, ``moved``, ``preempted`` and ``extended``.
    waiting
        Jobs that had no devices, and have none.
    racks
        Racks of each gang of the plan.
    allocation
        What the policy was asked last and has answered: shares of time, or whole decisions, with
        objective and certificate. Jobs about which it was not asked have a row of zeros. ``None``
        where no policy was asked.
    policy, mechanism
        Who has decided, as it would be written, and how it is carried out.
    valid_for_s
        For how long this stands if nothing happens, seconds: a round, a lease, until a delay timer
        ends; infinite for until a job comes or is done.
    """

    plan: RoundPlan
    waiting: tuple[Hashable, ...]
    racks: tuple[tuple[int, ...], ...]
    allocation: Allocation | None
    policy: str
    mechanism: str
    valid_for_s: float

    @property
    def running(self) -> dict[Hashable, tuple[str, tuple[int, ...]]]:
        """Accelerator and devices of each job that has some: ``running=`` of the next round."""
        return {
            job: (gang.accelerator, gang.devices)
            for gang in self.plan.assignments
            for job in gang.jobs
        }

    @property
    def objective(self) -> float:
        """The policy's objective; NaN where no policy was asked."""
        return float("nan") if self.allocation is None else self.allocation.objective

    @property
    def gap(self) -> float:
        """Certified relative distance of it from the optimum; NaN where no policy was asked."""
        return float("nan") if self.allocation is None else self.allocation.gap

    @property
    def status(self) -> str:
        """Of the policy's answer, as `Allocation.status`; empty where no policy was asked."""
        return "" if self.allocation is None else self.allocation.status

    @property
    def X(self) -> pd.DataFrame | None:
        """The allocation matrix, if a policy was asked."""
        return None if self.allocation is None else self.allocation.X

    def table(self) -> pd.DataFrame:
        """Return one row per job, indexed by job, those that have devices first.

        Columns: ``accelerator``, ``racks``, ``machines`` and ``devices`` (tuples of numbers),
        ``status`` (started, extended, moved, preempted or waiting), and ``shares_with`` (the other
        job on the same devices).
        """
        named = ("started", "moved", "extended", "preempted")
        status = {job: name for name in named for job in getattr(self.plan, name)}
        rows: dict[Hashable, tuple[Any, ...]] = {}
        for gang, racks in zip(self.plan.assignments, self.racks, strict=True):
            for job in gang.jobs:
                others = tuple(other for other in gang.jobs if other != job)
                where = gang.accelerator, racks, gang.machines, gang.devices
                rows[job] = (*where, status[job], others)
        for job in (*self.plan.preempted, *self.waiting):
            rows[job] = ("", (), (), (), status.get(job, "waiting"), ())
        index = pd.Index(list(rows), name="job", tupleize_cols=False)
        return pd.DataFrame(list(rows.values()), index=index, columns=list(_COLUMNS))

    def __repr__(self) -> str:
        head = f"{self.policy} by {self.mechanism}: {len(self.plan.jobs)} jobs have devices"
        if self.plan.preempted:
            head += f", {len(self.plan.preempted)} lose theirs"
        if self.waiting:
            head += f", {len(self.waiting)} wait"
        lines = [head, _printed(self.table())]
        if self.allocation is not None:
            lines.append(
                f"{self.status}, objective {self.objective:.6g}"
                f"{f' {self.allocation.unit}' if self.allocation.unit else ''}, gap {self.gap:.1e}"
            )
            if self.allocation.message:
                lines.append(self.allocation.message)
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<p>{repr(self).splitlines()[0]}</p>{_shown(self.table()).to_html(max_rows=40)}"


def _shown(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table for readers: lists of numbers as texts, without columns that say nothing."""
    shown = table.map(lambda value: ", ".join(map(str, value)) if type(value) is tuple else value)
    return shown.loc[:, [name == "status" or shown[name].ne("").any() for name in shown.columns]]


def _printed(table: pd.DataFrame) -> str:
    return "no jobs" if table.empty else _shown(table).to_string(max_rows=40)
