"""Rounds in arrays: target shares and time received so far become the gangs of the next round."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from apportion.mechanism.core_rows import GangRound
from apportion.mechanism.priorities import Candidates, idle_first, preferences, time_at_start
from apportion.mechanism.repetition import add_repeatedly
from apportion.mechanism.scheduler import NOBODY
from apportion.mechanism.selection import select

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import ArrayLike

    from apportion.mechanism.placement import Placer
    from apportion.types import Bools, Floats, Ints


_COLUMNS = ("ids", "number", "scale", "served", "last_type", "target", "speed", "received", "owed")


class RoundCore:
    """Gavel's round-based mechanism over rows of arrays; knows neither labels nor the clock.

    A row is a job, or a combination of jobs that share devices. Rows of one job keep the order of
    submission, by which ties are broken; a combination comes right after its first job there.

    Parameters
    ----------
    capacity
        GPUs of each type, shape (types,).
    placer
        Gives the devices.
    round_seconds
        Length of a round, seconds.
    carry_over
        Whether a new target begins with what rows are owed from the one before.
    work_conserving
        Whether GPUs that the shares leave idle are lent to whoever can run there.
    in_turn
        Whether a row has its types one after the other, unless devices are shared; see
        `Candidates.one_type_after_the_other`.
    columns_of_type
        Columns that there are for each type, side by side: one, or one for each of its tiers.

    Attributes
    ----------
    kind
        Type of each column, shape (columns,).
    models
        Tells what rows train, if it matters to the placement.
    resources
        What rows hold in each column beside GPUs, and how much there is: usage of shape (rows,
        columns, resources), and capacity. For one round.

    Notes
    -----
    Narayanan et al., OSDI 2020, section 5. Arrays, one entry per row: ``ids`` (names the gang to
    the placer), ``number`` (of its first job in the order of submission), ``scale`` (GPUs),
    ``slots`` (jobs of the row, as numbers below the number of rows), ``served`` (seconds ever run)
    and ``last_type`` (column, -1: not running); with one column per type, or per tier of each:
    ``target`` (share of time), ``speed`` (steps/s or any measure of it; 0 = cannot run),
    ``received`` (seconds since the last target, on top of what it began with) and ``owed`` (seconds
    that earlier targets have left open).
    """

    def __init__(
        self,
        capacity: ArrayLike,
        placer: Placer,
        round_seconds: float,
        *,
        carry_over: bool = True,
        work_conserving: bool = True,
        in_turn: bool = False,
        columns_of_type: int = 1,
    ) -> None:
        self.capacity, self.in_turn = np.asarray(capacity, dtype=np.intp), in_turn
        self.placer, self.devices = placer, placer.devices
        self.round_seconds = round_seconds
        self.carry_over, self.work_conserving = carry_over, work_conserving
        self.elapsed_s, self._next_id, self._next_number = 0.0, 0, 0
        self._candidates: Candidates | None = None
        self._all_fit = False
        self._preference: Ints | None = None
        self.models: Callable[[Ints], Sequence[str]] | None = None
        self.resources: tuple[Floats, Floats] | None = None
        place, each = np.argsort(np.argsort(placer.accelerators)), np.arange(columns_of_type)
        self.kind = np.repeat(np.arange(self.capacity.size), columns_of_type)
        self._place = (place[:, None] * columns_of_type + each).ravel()
        self.ids = np.empty(0, dtype=np.intp)
        self.number = np.empty(0, dtype=np.intp)
        self.scale = np.empty(0, dtype=np.intp)
        self.slots = np.empty((0, 1), dtype=np.intp)
        self.served = np.empty(0)
        self.last_type = np.empty(0, dtype=np.intp)
        self.target = np.empty((0, self.kind.size))
        self.speed = np.empty((0, self.kind.size))
        self.received = np.empty((0, self.kind.size))
        self.owed = np.empty((0, self.kind.size))

    def append(self, speed: Floats, scale: ArrayLike, number: Ints | None = None) -> None:
        """Add rows that have no share yet; `speed` is of shape (rows, types).

        Without a `number` rows are those of new jobs, which are numbered as they come.
        """
        if number is None:
            number = np.arange(self._next_number, self._next_number + len(speed))
            self._next_number += len(speed)
        rows, blank, own = len(speed), np.zeros(speed.shape), vars(self)
        ids = np.arange(self._next_id, self._next_id + rows)
        added = {
            "ids": ids,
            "number": number,
            "scale": np.asarray(scale, dtype=np.intp),
            "served": np.zeros(rows),
            "last_type": np.zeros(rows, dtype=np.intp) - 1,
            "target": blank,
            "owed": blank,
            "speed": speed,
            "received": blank + self.round_seconds / 2,
        }
        for name, values in added.items():
            own[name] = np.concatenate((own[name], values))
        if self._preference is not None:
            more = preferences(speed, number, self._place)
            self._preference = np.concatenate((self._preference, more))
        self._next_id += rows
        self._one_job_each()

    def keep(self, mask: Bools) -> None:
        """Drop the rows outside the mask and free their devices."""
        self.devices.release(self.ids[~mask & (self.last_type >= 0)].tolist())
        stay, own = mask.nonzero()[0], vars(self)
        for name in _COLUMNS:
            own[name] = own[name].take(stay, axis=0)
        if self._preference is not None:
            self._preference = self._preference.take(stay, axis=0)
        self._one_job_each()

    def evict(self, rows: Ints) -> None:
        """Take the devices from running rows, which then have to start again."""
        self.devices.release(self.ids[rows].tolist())
        self.last_type[rows] = -1

    def aim(self, target: Floats) -> None:
        """Set the target shares, shape (rows, types), and count the time received anew."""
        half = self.round_seconds / 2
        due = self.target * self.elapsed_s - (self.received - half)
        # Time received begins with what was owed, so it is in the balance already.
        self.owed = due if self.carry_over else self.owed + due
        received = time_at_start(self.owed, self.round_seconds, self.carry_over)
        self.received = np.ascontiguousarray(received)  # `tell` writes through a flat view
        self.target = target
        self.elapsed_s = 0.0
        self._candidates = None

    def correct(self, rows: Ints, speed: Floats) -> None:
        """Set where some rows can run and how fast, shape (rows, types)."""
        self.speed[rows] = speed
        self._forget()

    def combine(self, slots: Ints) -> None:
        """Say which jobs the rows hold, shape (rows, members); repeat one to fill a line."""
        self.slots = slots
        self._forget()

    def ask(self) -> GangRound:
        """Choose the gangs of the next round and give them devices; some may get none and wait."""
        if self.settled:  # all go on; only the order of their priorities may be another one
            rows, types = self.wanted()
            return GangRound(rows, types, np.zeros((rows.size, 1), dtype=bool), NOBODY)
        rows, types = self._choose()
        now = np.zeros(self.ids.size, dtype=np.intp) - 1
        now[rows] = types
        fresh = self.last_type[rows] != types
        stopped = ((self.last_type >= 0) & (self.last_type != now)).nonzero()[0]
        starts, jobs = fresh[:, None], self.slots[stopped, 0]
        if self.slots.shape[1] > 1:
            ran = self.slots[self.last_type >= 0]
            stopped, fresh, starts = self._hand_over(rows, types, fresh, stopped)
            jobs = np.setdiff1d(ran, self.slots[rows][~starts])
        if stopped.size:
            self.devices.release(self.ids[stopped].tolist())
        new, declined = rows[fresh], []
        if new.size:
            gpus = self.scale[new]
            kinds = types[fresh].tolist()
            models = None if self.models is None else self.models(new)
            declined = self.placer.place(self.ids[new].tolist(), kinds, gpus.tolist(), models)
            if declined:
                now[new[declined]] = -1
        self.last_type = now
        if not declined:
            return GangRound(rows, types, starts, jobs)
        run = now[rows] >= 0
        return GangRound(rows[run], types[run], starts[run], jobs, declined=True)

    def tell(self, rows: Ints, columns: Ints, seconds: Floats, *, times: int = 1) -> float:
        """Book how long each gang of a round has run, seconds; return how long the round was.

        That is as long as the gang that ran longest. With `times`, of so many equal rounds.
        """
        longest = float(seconds[seconds.argmax()]) if seconds.size else self.round_seconds
        cells = rows * self.kind.size + columns
        received = self.received.reshape(-1)
        received[cells] = add_repeatedly(received[cells], seconds, times)
        self.served[rows] = add_repeatedly(self.served[rows], seconds, times)
        self.elapsed_s = float(add_repeatedly(self.elapsed_s, longest, times))
        return longest

    @property
    def settled(self) -> bool:
        """Whether every round is as the last one until the rows or the target change.

        So it is if each row holds one job, has a share of the one type on which it runs, and all
        of them fit: then priorities, which change from round to round, decide nothing.
        """
        rows, types = self.candidates.rows, self.candidates.types
        if not self._all_fit or (self.last_type[rows] != types).nonzero()[0].size:
            return False
        held = self.resources
        return held is None or not (held[0][rows, types].sum(axis=0) > held[1]).any()

    @property
    def candidates(self) -> Candidates:
        """Every row and type with a share of time."""
        if self._candidates is None:
            self._candidates = wanted = Candidates.of(
                self.target, self.speed, self.owed, self.preference, self._order
            )
            alone = self.work_conserving and self.slots.shape[1] == 1
            self._all_fit = alone and wanted.fit(self.scale, self.capacity, self.kind)
        return self._candidates

    @property
    def preference(self) -> Ints:
        """Which of its types each row takes first where priorities are equal."""
        if self._preference is None:
            self._preference = preferences(self.speed, self.number, self._place)
        return self._preference

    @property
    def _order(self) -> Ints | None:
        """Place of each row in the order of submission of its jobs; rows of one job are in it."""
        if self.slots.shape[1] == 1:
            return None
        place = np.empty(self.ids.size, dtype=np.intp)
        place[np.lexsort(np.sort(self.slots, axis=1).T[::-1])] = np.arange(self.ids.size)
        return place

    def _choose(self) -> tuple[Ints, Ints]:
        """Serve the shares by priority, then fill what is idle with whoever can run there."""
        rows, types = self.wanted()
        if self._all_fit and self.resources is None:
            return rows, types
        free = self.capacity.copy()
        taken = np.zeros(self.ids.size, dtype=bool)
        held = None if self.resources is None else (self.resources[0], self.resources[1].copy())
        chosen = self._taken(rows, types, free, taken, held)
        rows, types = rows[chosen], types[chosen]
        if self.work_conserving and free.nonzero()[0].size:
            waiting = self._waiting(taken, free)
            if waiting.nonzero()[0].size:
                more, where = idle_first(self.served, self.speed, waiting, self.preference)
                chosen = self._taken(more, where, free, taken, held)
                rows = np.concatenate([rows, more[chosen]])
                types = np.concatenate([types, where[chosen]])
        return rows, types

    def _taken(
        self,
        rows: Ints,
        columns: Ints,
        free: Ints,
        taken: Bools,
        held: tuple[Floats, Floats] | None,
    ) -> Ints:
        """Take rows in the order given; return their places."""
        beside = None if held is None else (held[0][rows, columns], held[1])
        return select(self.slots[rows], columns, self.scale[rows], free, taken, beside=beside)

    def wanted(self) -> tuple[Ints, Ints]:
        """Return rows and types with a share in the order in which they are served."""
        if self.in_turn and self.slots.shape[1] == 1:
            facts = self.last_type, self.speed, self.scale, self.capacity, self.kind
            return self.candidates.one_type_after_the_other(*facts)
        end_s = np.inf if self.work_conserving else self.elapsed_s + self.round_seconds
        return self.candidates.by_priority(self.received, self.round_seconds / 2, end_s)

    def _waiting(self, taken: Bools, free: Ints) -> Bools:
        """Rows of one job that does not run yet and would fit somewhere."""
        waiting: Bools = ~taken[self.slots[:, 0]] & (self.scale <= free[free.argmax()])
        if self.slots.shape[1] > 1:
            waiting &= (self.slots == self.slots[:, :1]).all(axis=1)
        return waiting

    def _hand_over(
        self, rows: Ints, types: Ints, fresh: Bools, stopped: Ints
    ) -> tuple[Ints, Bools, Bools]:
        """Let a gang that shares a job with a stopped one of its kind keep the devices.

        Returns
        -------
        Rows that lose their devices, which gangs need new ones, and which of their jobs start: of
        a gang that goes on with the devices of another, those that were not in that one.
        """
        holder = {slot: row for row in stopped.tolist() for slot in self.slots[row].tolist()}
        fresh, gone = fresh.copy(), np.isin(np.arange(self.ids.size), stopped)
        starts = np.repeat(fresh[:, None], self.slots.shape[1], axis=1)
        for k in np.flatnonzero(fresh).tolist():
            row = int(rows[k])
            for slot in self.slots[row].tolist():
                old = holder.get(slot, row)
                alike = self.last_type[old] == types[k] and self.scale[old] == self.scale[row]
                if gone[old] and alike and fresh[k]:
                    self.devices.hand_over(int(self.ids[old]), int(self.ids[row]))
                    gone[old] = fresh[k] = False
                    starts[k] = ~np.isin(self.slots[row], self.slots[old])
        return np.flatnonzero(gone), fresh, starts

    def _one_job_each(self) -> None:
        self.slots = np.arange(self.ids.size)[:, None]
        self._candidates = None

    def _forget(self) -> None:
        """Drop what follows from target, speed and rows."""
        self._candidates = self._preference = None
