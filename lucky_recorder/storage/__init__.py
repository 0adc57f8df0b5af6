"""How bytes reach the disk, and how what strangers wrote is read."""
