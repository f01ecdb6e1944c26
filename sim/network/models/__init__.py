"""Models that are trained: layers, passes, memory, and what they send, by name or as files say."""
