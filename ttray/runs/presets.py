"""Settings by name: quick ones of our own, and the paper's, one per environment and budget.

The quick ones have weights per decision and baselines, and batches so small that most of the learning is in
their number; how they were chosen is in docs/notes/algorithm.md. The paper's are those of its appendix
"Hyper-parameters". A preset says what to run; it does not run it, and it holds several discounts because the
other values are the same for all of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ttray.boundary.fields import brief


@dataclass(frozen=True, kw_only=True)
class Preset:
    """What to run, but for the seed.

    Attributes:
        name: Name of the preset; of the paper's, the smaller budget of an environment is part of it.
        environment: Gymnasium id.
        horizon: Longest trajectory T.
        budget: Planned environment steps per iteration, Λ.
        gammas: Discounts that it was made for, the largest first.
        hidden_sizes: Widths of the policy network's hidden layers.
        delta: Probability that the bound fails.
        num_offline_iterations: Offline iterations per batch.
        strategy: How batches are planned; None for the algorithm's own way.
        importance_weights: One per "trajectory", or "per_decision".
        baseline: "none" or "per_step".
        importance_weight_clip: Largest importance weight; None where not applied.
        min_max_reward: Smallest value for the largest absolute reward; None where not applied.
    """

    name: str
    environment: str
    horizon: int
    budget: int
    gammas: tuple[float, ...]
    hidden_sizes: tuple[int, ...]
    delta: float
    num_offline_iterations: int
    strategy: str | None = None
    importance_weights: str = "trajectory"
    baseline: str = "none"
    importance_weight_clip: float | None = None
    min_max_reward: float | None = None


_FAST = (
    Preset(
        name="dam-fast",
        environment="ttray/Dam-v0",
        horizon=360,
        budget=1080,
        gammas=(0.999, 0.95),
        hidden_sizes=(64, 32),
        delta=0.8,
        num_offline_iterations=10,
        importance_weights="per_decision",
        baseline="per_step",
        importance_weight_clip=10.0,
    ),
    Preset(
        name="corridor-dense-fast",
        environment="ttray/CorridorDense-v0",
        horizon=1000,
        budget=2000,
        gammas=(0.99,),
        hidden_sizes=(64, 32),
        delta=0.9,
        num_offline_iterations=10,
        importance_weights="per_decision",
        baseline="per_step",
        importance_weight_clip=10.0,
    ),
    Preset(
        name="supply-chain-fast",
        environment="ttray/SupplyChain-v0",
        horizon=30,
        budget=600,
        gammas=(0.95,),
        hidden_sizes=(100, 50, 25),
        delta=0.9,
        num_offline_iterations=20,
        importance_weights="per_decision",
        baseline="per_step",
        importance_weight_clip=10.0,
    ),
    Preset(
        name="reacher-fast",
        environment="ttray/Reacher-v0",
        horizon=200,
        budget=1000,
        gammas=(0.95,),
        hidden_sizes=(100, 50, 25),
        delta=0.8,
        num_offline_iterations=20,
        importance_weights="per_decision",
        baseline="per_step",
        importance_weight_clip=10.0,
    ),
    Preset(
        name="cartpole-fast",
        environment="CartPole-v1",
        horizon=500,
        budget=2000,
        gammas=(0.99,),
        hidden_sizes=(64, 32),
        delta=0.9,
        num_offline_iterations=10,
        importance_weights="per_decision",
        baseline="per_step",
        importance_weight_clip=10.0,
    ),
    Preset(
        name="inverted-pendulum-fast",
        environment="InvertedPendulum-v5",
        horizon=1000,
        budget=2000,
        gammas=(0.99,),
        hidden_sizes=(64, 32),
        delta=0.9,
        num_offline_iterations=10,
        importance_weights="per_decision",
        baseline="per_step",
        importance_weight_clip=10.0,
    ),
)

_PAPER = (
    Preset(
        name="corridor-sparse",
        environment="ttray/CorridorSparse-v0",
        horizon=100,
        budget=2500,
        gammas=(0.999, 0.995, 0.99),
        hidden_sizes=(64, 32),
        delta=0.9,
        num_offline_iterations=10,
        importance_weight_clip=100.0,
    ),
    Preset(
        name="corridor-sparse-1300",
        environment="ttray/CorridorSparse-v0",
        horizon=100,
        budget=1300,
        gammas=(0.999, 0.995, 0.99),
        hidden_sizes=(64, 32),
        delta=0.9,
        num_offline_iterations=10,
        importance_weight_clip=100.0,
    ),
    Preset(
        name="corridor-dense",
        environment="ttray/CorridorDense-v0",
        horizon=1000,
        budget=25000,
        gammas=(0.999, 0.995, 0.99),
        hidden_sizes=(64, 32),
        delta=0.7,
        num_offline_iterations=10,
        importance_weight_clip=100.0,
    ),
    Preset(
        name="corridor-dense-15000",
        environment="ttray/CorridorDense-v0",
        horizon=1000,
        budget=15000,
        gammas=(0.999, 0.995, 0.99),
        hidden_sizes=(64, 32),
        delta=0.7,
        num_offline_iterations=10,
        importance_weight_clip=100.0,
    ),
    Preset(
        name="dam",
        environment="ttray/Dam-v0",
        horizon=360,
        budget=8640,
        gammas=(0.999, 0.995, 0.95),
        hidden_sizes=(64, 32),
        delta=0.7,
        num_offline_iterations=10,
    ),
    Preset(
        name="dam-4320",
        environment="ttray/Dam-v0",
        horizon=360,
        budget=4320,
        gammas=(0.999, 0.995, 0.95),
        hidden_sizes=(64, 32),
        delta=0.6,
        num_offline_iterations=10,
    ),
    Preset(
        name="supply-chain",
        environment="ttray/SupplyChain-v0",
        horizon=30,
        budget=3900,
        gammas=(0.999, 0.97, 0.95),
        hidden_sizes=(100, 50, 25),
        delta=0.005,
        num_offline_iterations=20,
        importance_weight_clip=100.0,
    ),
    Preset(
        name="supply-chain-2400",
        environment="ttray/SupplyChain-v0",
        horizon=30,
        budget=2400,
        gammas=(0.999, 0.97, 0.95),
        hidden_sizes=(100, 50, 25),
        delta=0.005,
        num_offline_iterations=20,
        importance_weight_clip=100.0,
    ),
    Preset(
        name="reacher",
        environment="ttray/Reacher-v0",
        horizon=200,
        budget=8000,
        gammas=(0.999, 0.995, 0.95),
        hidden_sizes=(100, 50, 25),
        delta=0.8,
        num_offline_iterations=20,
        min_max_reward=5.0,
    ),
    Preset(
        name="reacher-4000",
        environment="ttray/Reacher-v0",
        horizon=200,
        budget=4000,
        gammas=(0.999, 0.995, 0.95),
        hidden_sizes=(100, 50, 25),
        delta=0.8,
        num_offline_iterations=20,
        min_max_reward=5.0,
    ),
)

PAPER_PRESETS: Mapping[str, Preset] = MappingProxyType({preset.name: preset for preset in _PAPER})
PRESETS: Mapping[str, Preset] = MappingProxyType({preset.name: preset for preset in (*_FAST, *_PAPER)})
DEFAULT_PRESET = "dam"


def preset(name: str) -> Preset:
    """Return the preset of this name.

    Args:
        name: A key of `PRESETS`.
    """
    if not isinstance(name, str) or name not in PRESETS:
        raise ValueError(f"no preset {brief(name)}; choose one of {', '.join(PRESETS)}")
    return PRESETS[name]
