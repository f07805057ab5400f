"""Rollouts in one process: environments in slots, a quota in, a table out. No Ray."""
