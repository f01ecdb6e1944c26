"""Random problems of every policy, each judged by an oracle that shares no code with the library.

The oracles are written from the definitions in ``docs/reference/policies.md`` with numpy, scipy and
Clarabel.
"""
