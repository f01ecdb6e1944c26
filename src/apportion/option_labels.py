"""Labels of options, the columns of a throughput tensor: what their levels say."""

from __future__ import annotations

from typing import Any

import pandas as pd

from apportion.errors import written

OPTION_LEVELS = ("accelerator", "tier", "gpus")
"""What an option can say, the names of the levels of the columns."""


def name_in_cluster(option: Any) -> Any:
    """Return an option under the name that its type has in a cluster."""
    return (str(option[0]), *option[1:]) if isinstance(option, tuple) else str(option)


def level_names(options: pd.Index) -> tuple[str, ...] | None:
    """Return what the levels of options say, out of `OPTION_LEVELS`; None where that is unknown."""
    if options.nlevels == 1:
        return ("accelerator",)
    named = tuple(map(str, options.names))
    if any(name in OPTION_LEVELS for name in named):
        right = {"accelerator"} <= set(named) <= set(OPTION_LEVELS)
        return named if right and len(set(named)) == len(named) else None
    if options.nlevels > 2:
        return None
    numbers = pd.api.types.is_numeric_dtype(options.get_level_values(1))
    return ("accelerator", "gpus" if numbers else "tier")


def called(options: pd.Index) -> str:
    """Write the names of levels that have any."""
    return f" called {list(options.names)}" if any(options.names) else ""


def written_option(option: Any) -> str:
    """Write an option as a user would."""
    return " at ".join(map(written, option)) if isinstance(option, tuple) else written(option)
