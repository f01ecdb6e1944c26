"""What the papers claim of the systems that are built here, and whether it holds: one file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.faces import lazily

if TYPE_CHECKING:
    from apportion.papers.claims import Claim as Claim
    from apportion.papers.claims import Figure as Figure
    from apportion.papers.claims import claims_of as claims_of
    from apportion.papers.claims import systems as systems


if not TYPE_CHECKING:  # or a checker would take any name for one of these
    __getattr__ = lazily(__name__)
