"""Looking at a simulation: what is due at each tick, and how its numbers and pictures are taken.

MuJoCo is imported in `capture.mujoco` and `capture.draw` only; the files beside them work without it.
"""
