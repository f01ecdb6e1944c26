"""What works under `solve`: from a policy and an instance in arrays to a certified solution."""
