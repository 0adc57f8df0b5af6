"""LeRobot: whether it opens a session, a copy that it opens, and its policies."""
