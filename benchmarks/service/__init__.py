"""The decision service under load."""
