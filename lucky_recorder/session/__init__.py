"""The v3.0 session: chunked Parquet rows, one video per camera per episode, metadata in ``meta/``."""
