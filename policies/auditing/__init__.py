"""Who has reason to complain of an allocation: by itself, beside others, all together, by a lie."""

from __future__ import annotations

from apportion.policies.auditing.complaints import Audit, audit

__all__ = ["Audit", "audit"]
