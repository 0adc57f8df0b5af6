"""The doctor: what this machine can do. What it examines is never imported here, because it may crash."""
