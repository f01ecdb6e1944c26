"""The engine of every simulation: the loop, what is true, how fast gangs are, and the record.

`loop` has the only loop, and the contracts of a runtime and of a record; `truth` what is true of
the jobs; `fluid` a runtime in which gangs work at rates, which `speeds` knows. Who decides is in
`apportion.mechanism.scheduler`.
"""

from apportion.sim.engine.fluid import Fluid
from apportion.sim.engine.loop import Record, Runtime, run
from apportion.sim.engine.record import RunRecord
from apportion.sim.engine.speeds import Speeds, TableSpeeds
from apportion.sim.engine.truth import Truth

__all__ = ["Fluid", "Record", "RunRecord", "Runtime", "Speeds", "TableSpeeds", "Truth", "run"]
