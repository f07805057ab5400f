"""Models of Stable-Baselines3 and sb3-contrib, trained for a moment; made when asked for."""

from functools import cache

MODELS = {
    "PPO": ("stable_baselines3", "PPO", "CartPole-v1", {"n_steps": 64, "batch_size": 64}),
    "PPO, a Box": ("stable_baselines3", "PPO", "Pendulum-v1", {"n_steps": 64, "batch_size": 64}),
    "PPO, many choices": ("stable_baselines3", "PPO", "ttray/SupplyChain-v0", {"n_steps": 64}),
    "PPO, gSDE": ("stable_baselines3", "PPO", "Pendulum-v1", {"n_steps": 64, "use_sde": True}),
    "A2C": ("stable_baselines3", "A2C", "CartPole-v1", {}),
    "SAC": ("stable_baselines3", "SAC", "Pendulum-v1", {"learning_starts": 30, "buffer_size": 500}),
    "TD3": ("stable_baselines3", "TD3", "Pendulum-v1", {"learning_starts": 30, "buffer_size": 500}),
    "DQN": ("stable_baselines3", "DQN", "CartPole-v1", {"learning_starts": 30, "buffer_size": 500}),
    "RecurrentPPO": ("sb3_contrib", "RecurrentPPO", "CartPole-v1", {"n_steps": 64}),
    "TQC": ("sb3_contrib", "TQC", "Pendulum-v1", {"learning_starts": 30, "buffer_size": 500}),
}


def environment_of(name):
    return MODELS[name][2]


@cache
def trained(name):
    """A model after some sixty steps."""
    from importlib import import_module

    package, algorithm, environment, settings = MODELS[name]
    policy = "MlpLstmPolicy" if algorithm == "RecurrentPPO" else "MlpPolicy"
    made = getattr(import_module(package), algorithm)
    return made(policy, environment, seed=0, device="cpu", **settings).learn(64)
