"""What each command takes: its options and its help, one file per command, nothing heavy."""
