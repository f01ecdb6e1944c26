"""Events per second of the two engines of iterations, on the workload of Wang et al.

An event is the end of a task on a GPU or of a transfer. Time is CPU time within the engine; without
what places jobs, and without compiling.

    python -m benchmarks.ada_srsf.engines [--scale 1.0] [--repeats 3]
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import apportion as ap
from apportion.sim.contention.fast import FastEngine
from apportion.sim.contention.plain import PlainEngine

CLUSTER = ap.Cluster({"v100": 64}, gpus_per_machine=4)


class Stopwatch:
    """CPU seconds within `run` of an engine, of all runs together."""

    def __init__(self, engine: Any) -> None:
        self.seconds, self._inside = 0.0, engine.run
        engine.run = lambda *args, **kwargs: self._timed(*args, **kwargs)

    def _timed(self, *args: Any, **kwargs: Any) -> Any:
        started = time.process_time()
        try:
            return self._inside(*args, **kwargs)
        finally:
            self.seconds += time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="length of the workload")
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    watches = {"plain": Stopwatch(PlainEngine), "fast": Stopwatch(FastEngine)}
    small = ap.generate_contended_workload(scale=0.01)
    print(f"{'engine':8}{'gate':22}{'events':>12}{'CPU s':>9}{'million/s':>11}")
    for gate in ("at_most_1", "ada_dual", "ada_dual_as_written", "k_way", "what_if"):
        for engine, watch in watches.items():
            scale = args.scale * (0.1 if engine == "plain" else 1.0)
            workload = ap.generate_contended_workload(scale=scale)
            settings: dict[str, Any] = {"engine": engine, "gate": gate, "gpu_memory_gb": 32.0}
            ap.simulate("srsf_1", small, CLUSTER, **settings)  # compiles
            best, events = float("inf"), 0
            for _ in range(args.repeats):
                watch.seconds = 0.0
                run = ap.simulate("srsf_1", workload, CLUSTER, **settings)
                best = min(best, watch.seconds)
                events = int(run.tables["engine"]["events"].item())
            print(f"{engine:8}{gate:22}{events:12,}{best:9.2f}{events / best / 1e6:11.2f}")


if __name__ == "__main__":
    main()
