"""What `check_session` verifies, a file per part of the format; nothing here asks the writer what it would have written."""
