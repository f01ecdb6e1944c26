"""Whole decisions: relaxation, dynamic programme, branch and bound, and what each proves."""
