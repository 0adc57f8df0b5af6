"""Looking at a session: the contact sheet, and the Rerun viewer."""
