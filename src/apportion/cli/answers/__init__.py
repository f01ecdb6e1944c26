"""Commands that answer questions: ``whatif``, ``recommend``, ``forecast`` and ``advise``."""
