"""Runs as a person wants them: presets, training, evaluation, collections, each a Python call and a directory."""
