"""What this machine can do. Nothing that is examined here is imported: it may be broken, and may crash."""
