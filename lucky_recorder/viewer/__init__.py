"""Sessions for eyes."""
