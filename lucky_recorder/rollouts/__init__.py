"""Policies run in recorded environments."""
