"""Inputs for batch metadata helpers: one file per kind of argument, usable in anyone's own tests."""
