"""Decisions as a service: events in, decisions out, nothing lost."""

from __future__ import annotations

from apportion.annotations import open_doors
from apportion.service.service import DecisionService

__all__ = ["DecisionService"]

open_doors(globals())
