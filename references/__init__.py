"""Frozen references: one plain loop per contract, and frozen.toml with their digests."""
