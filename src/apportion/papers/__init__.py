"""What the papers claim of the systems that are built here, and whether it holds: one file."""

from apportion.annotations import open_doors
from apportion.papers.claims import Claim, Figure, claims_of, counts, systems
from apportion.papers.shown import as_markdown, as_rows, in_one_line

__all__ = [
    "Claim",
    "Figure",
    "as_markdown",
    "as_rows",
    "claims_of",
    "counts",
    "in_one_line",
    "systems",
]

open_doors(globals())
