"""Candidates: one folder per contract, one file per idea."""
