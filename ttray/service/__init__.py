"""The rollout service: quotas out to Ray actors, exactly the planned trajectories back."""
