"""Looking at a simulation: the only room, besides the sample environments, that imports mujoco."""
