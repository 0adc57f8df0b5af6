"""What to record: frozen settings, refused when they are built."""
