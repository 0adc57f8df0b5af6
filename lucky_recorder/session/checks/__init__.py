"""What `check_session` verifies, a file per part of the format. Nothing here asks the writer."""
