"""Fixed runs of every mechanism, with the bytes of their jobs tables release by release."""
