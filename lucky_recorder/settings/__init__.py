"""What to record: frozen settings. A wrong value is refused when they are built."""
