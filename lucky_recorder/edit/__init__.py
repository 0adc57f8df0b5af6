"""Sessions become sessions, or bundles."""
