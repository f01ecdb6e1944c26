"""Policies that decide in whole numbers: each job has one of its options, or none.

Elastic training (`sia`, `pollux`, `remaining_time`), GPUs for one job (`least_workload`), and the
rotations with which jobs share links (`rotations`). What the elastic ones share is in `values`.
"""
