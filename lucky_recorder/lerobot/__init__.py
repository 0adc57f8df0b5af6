"""What LeRobot opens of a session."""
