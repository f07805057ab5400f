"""Measurements of speed, each a module with a `run` that prints a table."""
