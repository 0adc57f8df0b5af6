"""Drawing what a simulation looks like, in the worker."""
