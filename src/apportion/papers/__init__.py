"""What the papers claim of the systems that are built here, and whether it holds: one file."""

from apportion.annotations import open_doors
from apportion.papers.claims import Claim, Figure, claims_of, systems

__all__ = ["Claim", "Figure", "claims_of", "systems"]

open_doors(globals())
