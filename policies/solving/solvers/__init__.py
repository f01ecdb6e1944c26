"""Solvers of programs in arrays: HiGHS, Clarabel and those written for the shapes met here."""
