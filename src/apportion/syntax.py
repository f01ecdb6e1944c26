"""Held while Python text is parsed, by whoever parses it in any thread.

CPython 3.11 counts the depth of all syntax trees that are being made together: two at once may end
in a SystemError.
"""

from __future__ import annotations

import threading

PARSING = threading.RLock()
"""One tree at a time. Looking for a source may import modules, which parse: their thread may."""
