"""What carries out an experiment: workers and where they are, what is finished, how far it is."""
