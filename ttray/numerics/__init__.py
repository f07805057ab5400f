"""Sums without rounding, random streams, elementwise functions and threads, each with fixed bits."""
