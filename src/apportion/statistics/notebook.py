"""How results stand in a notebook: a sentence, and a table below it."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

_MOST_ROWS = 12


def as_html(text: str, table: pd.DataFrame | Sequence[Mapping[str, Any]]) -> str:
    """Return a sentence and a table as HTML; what users named is escaped, a long table is cut.

    Parameters
    ----------
    text
        Stands above.
    table
        With its index; or rows, of which an index would say nothing.
    """
    import pandas as pd

    def number(value: float) -> str:
        return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"

    own = isinstance(table, pd.DataFrame)
    written = pd.DataFrame(table).to_html(
        max_rows=_MOST_ROWS, float_format=number, index=own, border=0, na_rep="-"
    )
    return f"<p>{escape(text)}</p>{written}"
