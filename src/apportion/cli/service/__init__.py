"""Commands that answer schedulers."""
