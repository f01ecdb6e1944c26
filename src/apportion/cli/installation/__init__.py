"""What is installed, and shells that complete its commands."""
