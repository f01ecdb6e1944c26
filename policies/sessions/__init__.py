"""Sessions: jobs come and go, and each solve begins where the last one ended."""
