"""The command line: ``apportion compare``, ``solve``, ``policies`` and ``workload``.

Nothing heavy is imported before a command runs, so that ``--help`` answers at once.
"""

from __future__ import annotations

from apportion.cli.entry import from_shell, main

__all__ = ["from_shell", "main"]
