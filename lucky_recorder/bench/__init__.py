"""The bench: what recording costs on this machine, in figures of its own, each against its goal.

The scripts of ``benchmarks/`` measure the same with more rounds, and what takes other libraries.
"""
