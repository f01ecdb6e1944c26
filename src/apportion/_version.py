"""The version, on its own so that builds can read it without importing the package."""

__version__ = "0.1.0"
