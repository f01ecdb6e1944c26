"""What is kept from solve to solve of a policy, and what its constraints say of each instant."""
