"""Runs as a person wants them: presets, training, evaluation and collection, as Python calls."""
