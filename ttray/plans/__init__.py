"""From a budget to trajectories: strategies, planners, widths, quotas."""
