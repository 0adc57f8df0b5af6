"""Policies run in recorded environments, to collect episodes or to be evaluated."""
