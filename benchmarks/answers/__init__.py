"""Are the answers right? Truths that were planted, and forecasts against what came to be."""
