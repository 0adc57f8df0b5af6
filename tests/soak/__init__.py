"""Long attacks, run by `make soak`; short ones of the same kind are tests in `tests/scenarios`."""
