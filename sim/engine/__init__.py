"""The engine of every simulation: the loop, what is true, and how fast gangs are.

`loop` has the only loop, and the contract of a runtime; `truth` what is true of the jobs; `fluid` a
runtime in which gangs work at rates, which `speeds` knows. Who decides is in
`apportion.mechanism.scheduler`.
"""

from apportion.sim.engine.fluid import Fluid
from apportion.sim.engine.loop import Runtime, run
from apportion.sim.engine.speeds import Speeds, TableSpeeds
from apportion.sim.engine.true_state import TrueState

__all__ = ["Fluid", "Runtime", "Speeds", "TableSpeeds", "TrueState", "run"]
