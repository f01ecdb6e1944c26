"""What there is, whether it works, and shells that complete its commands."""
