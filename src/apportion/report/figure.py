"""A figure that notebooks show by themselves; importing this needs matplotlib.

Raises
------
ApportionError
    If matplotlib is not installed.
"""

from __future__ import annotations

import io

from apportion.report.style import no_matplotlib, plotting_style

try:
    from matplotlib.figure import Figure
except ImportError as error:
    raise no_matplotlib(error) from error

_DOTS_PER_INCH = 120


class ShownFigure(Figure):
    """A matplotlib figure that is a picture where it is the value of a cell of a notebook.

    Figures of ``matplotlib.figure`` are shown only where pyplot has been imported and set up.
    """

    def _repr_png_(self) -> bytes:
        """Return the picture as PNG, for IPython."""
        stream = io.BytesIO()
        with plotting_style():
            self.savefig(stream, format="png", dpi=_DOTS_PER_INCH)
        return stream.getvalue()
