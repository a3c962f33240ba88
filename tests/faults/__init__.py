"""Seeded faults: wrong versions of each contract's function, which a check must catch."""
