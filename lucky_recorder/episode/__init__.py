"""What an episode is, for all who speak of it."""
