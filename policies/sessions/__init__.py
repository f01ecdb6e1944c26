"""Sessions: jobs come and go, and only what changed is solved again."""
