"""How the work of one placement and of one gate grows with the servers, counted in calls.

``python -m benchmarks.ada_srsf.growth``: servers of four GPUs that all have something left to do,
of which LWF-1 chooses half for a gang; AdaDUAL asks about a transfer over all links, with a
larger one under way on each. Calls of Python functions and of built-in ones are the same on any
machine under any load; a sort is one of them, so that the log N of a placement is not seen. Slopes
are of logarithms, by least squares. Wang et al., "Communication Contention Aware Scheduling of
Multiple Deep Learning Training Jobs", section 4, says N log N for a placement in N servers, and N
for a gate.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from apportion.mechanism.devices import Devices
from apportion.mechanism.gates import GATES, START, Flow
from apportion.mechanism.machines import MachinePool
from apportion.mechanism.placements import Gang, get_placement
from apportion.sim.links import ETHERNET_10G
from benchmarks.ada_srsf.costs import rows
from benchmarks.experiment import claimed
from benchmarks.papers.claims import Figure
from benchmarks.reporting import add_out, kept

if TYPE_CHECKING:
    from collections.abc import Callable

SERVERS, QUICK = (64, 256, 1024, 4096), (64, 128)
GPUS = 4


class Busy:
    """Links as gates see them, with one transfer under way on each."""

    s_per_byte = ETHERNET_10G.s_per_byte
    penalty_s_per_byte = ETHERNET_10G.penalty_s_per_byte

    def on(self, link: int) -> list[Flow]:
        """Return what is under way: ten times the size of what asks."""
        return [Flow(link, (link,), 1e9, 1e9)]


def calls_of(decide: Callable[[], object]) -> int:
    """Count the Python and built-in functions that are called for a decision."""
    count = 0

    def profile(_: object, event: str, __: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        decide()
    finally:
        sys.setprofile(before)
    return count


def placement_calls(servers: int) -> int:
    """Return the calls with which LWF-1 places a gang on half of the GPUs."""
    pool, rng = MachinePool([GPUS] * servers), np.random.default_rng(servers)
    devices = Devices([pool], ["v100"], memory_gb={"v100": 16.0}, shared=True)
    for gpu, load in enumerate(rng.uniform(1, 9, GPUS * servers).tolist()):
        devices.hold(gpu, 0, [gpu], 4.0, load=load)
    gang, placement = Gang(-1, GPUS * servers // 2, memory_gb=8.0), get_placement("lwf_1")
    assert placement.choose(gang, devices) is not None
    return calls_of(lambda: placement.choose(gang, devices))


def gate_calls(servers: int) -> int:
    """Return the calls with which AdaDUAL lets a transfer start that meets one on every link."""
    links: Any = Busy()
    flow = Flow(-1, tuple(range(servers)), 1e8, 1e8)
    assert GATES["ada_dual"].decide(0.0, flow, links) == START
    return calls_of(lambda: GATES["ada_dual"].decide(0.0, flow, links))


def main() -> None:
    """Print calls, and judge their slopes."""
    what = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    what.add_argument("--quick", action="store_true", help="few servers, no verdict")
    add_out(what)
    options = what.parse_args()
    with kept(options.out, "ada_srsf_growth"):
        servers = QUICK if options.quick else SERVERS
        print("Calls of one decision, by servers")
        figures, lines = [], list[list[object]]()
        for name, calls in (("LWF-1", placement_calls), ("AdaDUAL", gate_calls)):
            made = [calls(each) for each in servers]
            slope = float(np.polyfit(np.log(servers), np.log(made), 1)[0])
            lines.append([name, *made, slope])
            figures.append(Figure(name, slope))
        rows(["", *map(str, servers), "slope"], lines)
    if not options.quick:
        claimed("ada_srsf", "growth", figures)


if __name__ == "__main__":
    main()
