"""What one would take instead of the service to sample an environment, each behind one interface.

RLlib's env runners, TorchRL's collectors, Stable-Baselines3's rollouts and Sample Factory's sampler, each as
quick as its options allow on processors: the same environment with episodes that end at the horizon, the same
policy network (64, 32, tanh; no value network where the library can do without), one torch thread for each
process. What is learned from the samples is not done here. Below them all, the bare loop: a policy and a
vector environment and nothing else, the limit of what any of them could reach on a core.

TorchRL and Stable-Baselines3 are of the extra `bench`; Sample Factory has an environment of its own, which
`sample_factory.PYTHON` names, and is left out where there is none. TorchRL's processes import the main module
again: a script that samples with several workers needs `if __name__ == "__main__"`.
"""

import importlib.util


def check_installed() -> None:
    """Raises ValueError unless the extra `bench` is there."""
    for name, module in (("TorchRL", "torchrl"), ("Stable-Baselines3", "stable_baselines3")):
        if importlib.util.find_spec(module) is None:
            raise ValueError(f"{name} is not installed; pip install '.[bench]'")
