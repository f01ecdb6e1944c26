"""``python -m apportion.sim.contention``: compile the engine of iterations ahead of its first use.

In an image of a container, say, whose processes can write nothing down later.
"""

from __future__ import annotations

import sys
from typing import Any

from apportion.mechanism.gates import AtMost
from apportion.sim.contention import SharedCost, all_reduced, kernel
from apportion.sim.contention.fast import FastEngine
from apportion.sim.contention.jit import compiled, is_kept


def main() -> int:
    """Compile, and say whether later processes will find it; 1 if they will not."""
    if not compiled:
        sys.stderr.write("numba is not installed: pip install 'apportion[fast]'\n")
        return 1
    engine = FastEngine(1, 1, SharedCost(), AtMost(1))
    for job in range(2):
        engine.add(job, all_reduced(1.0, 1.0, 0.0), 1, [0], [], (0, job), 0.0)
    engine.drop(1)
    engine.run(0.0, 10.0, to_completion=False)
    entry: Any = kernel.advance
    folder = entry.stats.cache_path if is_kept(entry) else None
    if folder is None:
        sys.stderr.write("No folder can be written to: NUMBA_CACHE_DIR names one that can.\n")
        return 1
    sys.stdout.write(f"Compiled: {folder}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
