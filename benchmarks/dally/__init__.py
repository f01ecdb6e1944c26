"""Experiments of Dally's and ArtISt-sim's evaluation."""
