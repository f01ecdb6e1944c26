"""Gates: which of the transfers that could start may, on links that others use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from apportion.faces import lazily

if TYPE_CHECKING:
    from apportion.mechanism.gates.built_in import GATES as GATES
    from apportion.mechanism.gates.built_in import AdaDual as AdaDual
    from apportion.mechanism.gates.built_in import AllOf as AllOf
    from apportion.mechanism.gates.built_in import AtMost as AtMost
    from apportion.mechanism.gates.built_in import TimeShift as TimeShift
    from apportion.mechanism.gates.gate import HOLD as HOLD
    from apportion.mechanism.gates.gate import START as START
    from apportion.mechanism.gates.gate import Flow as Flow
    from apportion.mechanism.gates.gate import Gate as Gate
    from apportion.mechanism.gates.gate import LinksView as LinksView
    from apportion.mechanism.gates.gate import Rollout as Rollout


if not TYPE_CHECKING:  # or a checker would take any name for one of these
    __getattr__ = lazily(__name__)
