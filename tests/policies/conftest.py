from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog

from apportion.policies import Instance

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Bench:
    """One problem, and its optima by linear programs written out with scipy."""

    speed: Floats
    gpus: Floats
    capacity: Floats
    prices: Floats
    columns: dict[str, Floats] = field(default_factory=dict)
    blind: bool = False

    @classmethod
    def random(cls, seed: int, jobs: int | None = None, types: int | None = None) -> Bench:
        rng = np.random.default_rng(seed)
        n = jobs or int(rng.integers(1, 9))
        k = types or int(rng.integers(1, 5))
        speed = rng.uniform(0.5, 20.0, (n, k)) * 10.0 ** rng.integers(-2, 3, (n, 1))
        speed[rng.random((n, k)) < 0.25] = 0.0
        speed[np.arange(n), rng.integers(0, k, n)] += 1.0
        elapsed = rng.uniform(0, 600, n)
        columns = {
            "weight": rng.choice([0.5, 1.0, 5.0], n),
            "steps_remaining": rng.uniform(1e3, 1e5, n),
            "elapsed_s": elapsed,
            "isolated_elapsed_s": elapsed * rng.uniform(0.5, 1.5, n),
            "order": rng.permutation(n).astype(float),
            "deadline_s": np.full(n, np.nan),
            "network_priority": np.random.default_rng([seed, 1]).choice([0.0, 0.2, 0.5, 1.0], n),
        }
        return cls(
            speed=speed,
            gpus=rng.choice([1.0, 2.0, 4.0], n),
            capacity=rng.integers(4, 9, k).astype(float),
            prices=rng.uniform(0.5, 3.0, k),
            columns=columns,
        )

    @property
    def instance(self) -> Instance:
        return Instance.of_jobs(
            self.speed, self.gpus, self.capacity, columns=self.columns, prices=self.prices
        )

    @property
    def fastest(self) -> Floats:
        return np.asarray(self.speed.max(axis=1), dtype=float)

    @property
    def equal_share(self) -> Floats:
        if self.blind:
            return self.fastest
        return np.asarray(self.speed @ self.capacity / self.capacity.sum(), dtype=float)

    @property
    def isolated(self) -> Floats:
        share = self.capacity / (len(self.gpus) * self.gpus[:, None])
        share /= np.maximum(share.sum(axis=1, keepdims=True), 1)
        speed = self.fastest[:, None] if self.blind else self.speed
        return np.asarray((share * speed).sum(axis=1), dtype=float)

    def believed(self, aware: bool) -> Bench:
        if aware:
            return self
        gpus = (self.speed > 0) * self.capacity
        mean = (self.speed * gpus).sum(axis=1) / gpus.sum(axis=1)
        return replace(self, speed=(self.speed > 0) * mean[:, None], blind=True)

    def repeated(self, times: int) -> Bench:
        place = np.repeat(np.arange(len(self.gpus)), times)
        columns = {name: values[place] for name, values in self.columns.items()}
        return replace(self, speed=self.speed[place], gpus=self.gpus[place], columns=columns)

    def with_columns(self, **columns: Floats) -> Bench:
        return replace(self, columns=self.columns | columns)

    def most(self, gain: Floats, floors: Floats | None = None) -> Floats:
        """X with the largest sum of gain * X, every job's steps/s at least its floor."""
        n, k = self.speed.shape
        held = np.kron(self.gpus[None, :], np.eye(k))
        time = np.kron(np.eye(n), np.ones((1, k)))
        steps = np.zeros((n, n * k))
        for i in range(n):
            steps[i, i * k : (i + 1) * k] = self.speed[i] / self.fastest[i]
        floor = np.zeros(n) if floors is None else floors / self.fastest
        result = linprog(
            -gain.ravel() / (np.abs(gain).max() or 1.0),
            A_ub=np.vstack([held, time, -steps]),
            b_ub=np.concatenate([self.capacity, np.ones(n), -floor]),
            bounds=[(0, 1 if speed > 0 else 0) for speed in self.speed.ravel()],
        )
        if result.status != 0:
            raise RuntimeError(result.message)
        return np.asarray(result.x, dtype=float).reshape(n, k)

    def level(self, need: Floats) -> float:
        """Find the largest t such that every job can make t * need steps/s."""
        n, k = self.speed.shape
        unit = (need / self.fastest).max()
        each = need / self.fastest / unit  # variables are X / each, so that all are near t
        held = np.kron((self.gpus * each)[None, :], np.eye(k))
        time = np.kron(np.eye(n), np.ones((1, k)))
        steps = np.zeros((n, n * k))
        for i in range(n):
            steps[i, i * k : (i + 1) * k] = -self.speed[i] / self.fastest[i]
        top = np.zeros((k + n, 1))
        result = linprog(
            np.append(np.zeros(n * k), -1.0),
            A_ub=np.block([[np.vstack([held, time]), top], [steps, np.ones((n, 1))]]),
            b_ub=np.concatenate([self.capacity, 1 / each, np.zeros(n)]),
            bounds=[(0, None if speed > 0 else 0) for speed in self.speed.ravel()] + [(0, None)],
        )
        if result.status != 0:
            raise RuntimeError(result.message)
        return -float(result.fun or 0.0) / float(unit)

    def dearest(self, floors: Floats | None = None) -> float:
        """Maximise relative throughput per dollar by the iteration of Dinkelbach (1967)."""
        gain = self.speed / self.fastest[:, None]
        price = self.gpus[:, None] * self.prices
        ratio = 0.0
        for _ in range(50):
            X = self.most(gain - ratio * price, floors)
            if ((gain - ratio * price) * X).sum() <= 1e-10:
                break
            ratio = float((gain * X).sum() / (price * X).sum())
        return ratio

    def finish_time_ratio(self) -> float:
        """Minimise the largest ratio of finish times by bisection."""
        steps, elapsed = self.columns["steps_remaining"], self.columns["elapsed_s"]
        alone_s = self.columns["isolated_elapsed_s"] + steps / self.isolated
        low = float((elapsed / alone_s).max())
        high = float(((elapsed + steps / self.isolated) / alone_s).max())
        while high - low > 1e-10 * high:
            middle = (low + high) / 2
            reached = self.level(steps / (middle * alone_s - elapsed)) >= 1
            low, high = (low, middle) if reached else (middle, high)
        return high


@pytest.fixture
def bench() -> type[Bench]:
    return Bench
