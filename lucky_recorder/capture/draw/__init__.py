"""Drawing: what snapshots show becomes colours, depth and masks, in the worker's thread."""
