"""Small configurations that train in a blink, and what the tests look at."""

import numpy as np

import ttray


def small_config(config_class=None, **changes):
    """TT-POIS on a short dam."""
    settings = {"horizon": 40, "budget": 240, "gamma": 0.9, "num_offline_iterations": 3, "hidden_sizes": (8,)}
    runners = {"num_env_runners": 0, "num_envs_per_env_runner": 8}
    for key in list(changes):
        if key in ("num_env_runners", "num_envs_per_env_runner", "quota_timeout_s", "quotas_per_env_runner"):
            runners[key] = changes.pop(key)
    seed = changes.pop("seed", 0)
    environment = changes.pop("environment", "ttray/Dam-v0")
    config = (config_class or ttray.TTPOISConfig)()
    return (
        config.environment(environment)
        .env_runners(**runners)
        .training(**(settings | changes))
        .debugging(seed=seed, log_level="ERROR")
    )


def weights_of(algorithm):
    """The learner's weights as one vector."""
    state = algorithm.learner_group.get_weights()["default_policy"]
    return np.concatenate([np.asarray(value).reshape(-1) for value in state.values()])


def trained(config, iterations=3):
    """Trains, stops, and returns weights and the last batch's digest."""
    algorithm = config.build_algo()
    try:
        for _ in range(iterations):
            algorithm.train()
        return weights_of(algorithm), ttray.digest(algorithm.last_batch)
    finally:
        algorithm.stop()
