"""The rollout service: quotas out to workers, exactly the planned trajectories back."""
