"""Shifts of all the jobs on a cluster: for links that form loops too, and chosen anew in epochs."""
