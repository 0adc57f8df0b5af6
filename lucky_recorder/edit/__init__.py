"""Conversion: sessions become koyu bundles, and bundles become a session."""
