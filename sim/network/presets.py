"""The interconnects that presets use."""

from __future__ import annotations

from apportion.sim.network.interconnect import Dimension, Interconnect

__all__ = ["PHYSICAL", "TABLE1_INTERCONNECT"]

_GIBIBYTE = 2.0**30  # what ASTRA-sim counts as a gigabyte

TABLE1_INTERCONNECT = Interconnect(
    machine=(
        Dimension("machine", "fully_connected", 600 * _GIBIBYTE, 0.0, size=4, links_per_unit=1),
        Dimension("machine", "ring", 600 * _GIBIBYTE, 500e-9, links_per_unit=1),
    ),
    rack=Dimension("rack", "ring", 200 * _GIBIBYTE, 5e-6, links_per_unit=1),
    network=Dimension("network", "switch", 400 * _GIBIBYTE, 50e-6, links_per_unit=1),
    pipelined=True,
)
"""Figures that Dally's authors gave to ASTRA-sim: GPUs in fours, two fours to a machine.

Their simulator gives every dimension as many links as it has units.
"""

_NVSWITCH_BYTES_PER_S = 450e9
_INFINIBAND_BYTES_PER_S = 50e9
_ETHERNET_BYTES_PER_S = 100e9

PHYSICAL = Interconnect(
    machine=(Dimension("machine", "switch", _NVSWITCH_BYTES_PER_S, 0.25e-6),),
    rack=Dimension("rack", "switch", _INFINIBAND_BYTES_PER_S, 2.5e-6),
    # Traffic between racks leaves through the GPU's own InfiniBand port, which limits it.
    network=Dimension(
        "network", "switch", min(_INFINIBAND_BYTES_PER_S, _ETHERNET_BYTES_PER_S), 10e-6
    ),
)
"""Data-sheet bandwidths of the hardware that Dally's paper names, per GPU and direction.

NVSwitch 450 GB/s; Quantum-2 InfiniBand 400 Gb/s between the machines of a rack; Spectrum-4
Ethernet 800 Gb/s between racks. End to end, over two hops, latencies are 0.5, 5 and 20 us. They
are assumptions: the paper states none.
"""
