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
    from apportion.statistics.differences import Paired as Paired
    from apportion.statistics.differences import differences_of as differences_of
    from apportion.statistics.differences import paired as paired
    from apportion.statistics.differences import wins as wins
    from apportion.statistics.intervals import BATCHES as BATCHES
    from apportion.statistics.intervals import Interval as Interval
    from apportion.statistics.intervals import batch_figures as batch_figures
    from apportion.statistics.intervals import bootstrap as bootstrap
    from apportion.statistics.intervals import growing as growing
    from apportion.statistics.intervals import mean_interval as mean_interval
    from apportion.statistics.tables import marks_of as marks_of
    from apportion.statistics.tables import to_latex as to_latex
    from apportion.statistics.tables import to_markdown as to_markdown


if not TYPE_CHECKING:  # or a checker would take any name for one of these
    __getattr__ = lazily(__name__)
