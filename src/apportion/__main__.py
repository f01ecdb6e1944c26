"""``python -m apportion``: the command line."""

from __future__ import annotations

import sys

from apportion.cli import from_shell

if __name__ == "__main__":
    sys.exit(from_shell())
