"""Experiments of CASSINI's evaluation: phases on shared links."""
