"""The speed suite: what one decision costs, beside what it costs elsewhere."""
