"""What figures prove: paired differences, intervals, wins, and tables of them for papers.

Everything here takes numbers and tables, and knows nothing of simulations::

    from apportion import statistics

    statistics.paired([3.1, 2.9, 3.3], [3.5, 3.0, 3.9], ratio=True)  # of means over the same seeds
    statistics.bootstrap(waits_s, lambda waits, axis: np.quantile(waits, 0.95, axis), blocks=10)
    print(statistics.to_latex(swept.differences("fifo")))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.faces import lazily

if TYPE_CHECKING:
    from apportion.statistics.batches import BATCHES, batch_figures, growing
    from apportion.statistics.differences import Paired, differences_of, paired, wins
    from apportion.statistics.intervals import Interval, bootstrap, mean_interval
    from apportion.statistics.tables import marks_of, to_latex, to_markdown

__all__ = [
    "BATCHES",
    "Interval",
    "Paired",
    "batch_figures",
    "bootstrap",
    "differences_of",
    "growing",
    "marks_of",
    "mean_interval",
    "paired",
    "to_latex",
    "to_markdown",
    "wins",
]

if not TYPE_CHECKING:  # or a checker would take any name for one of these
    __getattr__ = lazily(__name__)
