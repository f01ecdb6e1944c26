"""Claims of the five papers, the experiments that measure them, and verdicts."""
