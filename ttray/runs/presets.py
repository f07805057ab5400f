"""Settings by name: quick ones of our own, the paper's, and the usual tasks of control for TTPO.

The quick ones have weights per decision and baselines, and batches so small that most of the learning is in
their number; how they were chosen is in docs/notes/algorithm.md. The paper's are those of its appendix
"Hyper-parameters". Those of TTPO have its defaults, but for what they say. A preset says what to run; it does
not run it, and it holds several discounts because the other values are the same for all of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

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
        algorithm: That it was made for; others take its task, and their own defaults for all else.
        settings: Where it differs from the defaults of its algorithm, by name.
    """

    name: str
    environment: str
    horizon: int
    budget: int
    gammas: tuple[float, ...]
    algorithm: str = "TTPO"
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class BoundPreset(Preset):
    """One that says how a bound is climbed: for TTPOIS, and for POIS, too.

    Attributes:
        hidden_sizes: Widths of the policy network's hidden layers.
        delta: Probability that the bound fails.
        num_offline_iterations: Offline iterations per batch.
        strategy: How batches are planned; None for the algorithm's own way.
        importance_weights: One per "trajectory", or "per_decision".
        baseline: "none" or "per_step".
        importance_weight_clip: Largest importance weight; None where not applied.
        min_max_reward: Smallest value for the largest absolute reward; None where not applied.
    """

    algorithm: str = "TTPOIS"
    hidden_sizes: tuple[int, ...]
    delta: float
    num_offline_iterations: int
    strategy: str | None = None
    importance_weights: str = "trajectory"
    baseline: str = "none"
    importance_weight_clip: float | None = None
    min_max_reward: float | None = None


_Kind = TypeVar("_Kind", bound=Preset)

# Quick ones have these in common.
_fast = partial(
    BoundPreset, importance_weights="per_decision", baseline="per_step", importance_weight_clip=10.0
)
_FAST = (
    _fast(
        name="dam-fast",
        environment="ttray/Dam-v0",
        horizon=360,
        budget=1080,
        gammas=(0.999, 0.95),
        hidden_sizes=(64, 32),
        delta=0.8,
        num_offline_iterations=10,
    ),
    _fast(
        name="corridor-dense-fast",
        environment="ttray/CorridorDense-v0",
        horizon=1000,
        budget=2000,
        gammas=(0.99,),
        hidden_sizes=(64, 32),
        delta=0.9,
        num_offline_iterations=10,
    ),
    _fast(
        name="supply-chain-fast",
        environment="ttray/SupplyChain-v0",
        horizon=30,
        budget=600,
        gammas=(0.95,),
        hidden_sizes=(100, 50, 25),
        delta=0.9,
        num_offline_iterations=20,
    ),
    _fast(
        name="reacher-fast",
        environment="ttray/Reacher-v0",
        horizon=200,
        budget=1000,
        gammas=(0.95,),
        hidden_sizes=(100, 50, 25),
        delta=0.8,
        num_offline_iterations=20,
    ),
    _fast(
        name="cartpole-fast",
        environment="CartPole-v1",
        horizon=500,
        budget=2000,
        gammas=(0.99,),
        hidden_sizes=(64, 32),
        delta=0.9,
        num_offline_iterations=10,
    ),
    _fast(
        name="inverted-pendulum-fast",
        environment="InvertedPendulum-v5",
        horizon=1000,
        budget=2000,
        gammas=(0.99,),
        hidden_sizes=(64, 32),
        delta=0.9,
        num_offline_iterations=10,
    ),
)


def _with_smaller(preset: BoundPreset, budget: int, **others: Any) -> tuple[BoundPreset, BoundPreset]:
    """A preset, and the same with a smaller budget and what else differs then."""
    return preset, replace(preset, name=f"{preset.name}-{budget}", budget=budget, **others)


_PAPER = (
    *_with_smaller(
        BoundPreset(
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
        budget=1300,
    ),
    *_with_smaller(
        BoundPreset(
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
        budget=15000,
    ),
    *_with_smaller(
        BoundPreset(
            name="dam",
            environment="ttray/Dam-v0",
            horizon=360,
            budget=8640,
            gammas=(0.999, 0.995, 0.95),
            hidden_sizes=(64, 32),
            delta=0.7,
            num_offline_iterations=10,
        ),
        budget=4320,
        delta=0.6,
    ),
    *_with_smaller(
        BoundPreset(
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
        budget=2400,
    ),
    *_with_smaller(
        BoundPreset(
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
        budget=4000,
    ),
)

# T is the time limit, or 4/(1 − γ) where that is shorter: a critic tells what comes later.
_CONTROL = (
    Preset(name="pendulum", environment="Pendulum-v1", horizon=80, budget=1000, gammas=(0.95,)),
    Preset(name="acrobot", environment="Acrobot-v1", horizon=400, budget=1000, gammas=(0.99,)),
    Preset(name="lunar-lander", environment="LunarLander-v3", horizon=400, budget=1000, gammas=(0.99,)),
    Preset(
        name="mountain-car-continuous",
        environment="MountainCarContinuous-v0",
        horizon=999,
        budget=5000,
        gammas=(0.999,),
        settings={"initial_std": 2.0},  # else no car ever comes to the flag
    ),
    Preset(name="hopper", environment="Hopper-v5", horizon=400, budget=1000, gammas=(0.99,)),
    Preset(name="half-cheetah", environment="HalfCheetah-v5", horizon=400, budget=1000, gammas=(0.99,)),
    Preset(name="walker2d", environment="Walker2d-v5", horizon=400, budget=1000, gammas=(0.99,)),
    Preset(name="swimmer", environment="Swimmer-v5", horizon=400, budget=1000, gammas=(0.99,)),
    Preset(
        name="inverted-double-pendulum",
        environment="InvertedDoublePendulum-v5",
        horizon=400,
        budget=1000,
        gammas=(0.99,),
    ),
)


def _by_name(presets: tuple[_Kind, ...]) -> Mapping[str, _Kind]:
    return MappingProxyType({preset.name: preset for preset in presets})


FAST_PRESETS = _by_name(_FAST)
PAPER_PRESETS = _by_name(_PAPER)
CONTROL_PRESETS = _by_name(_CONTROL)
PRESETS = _by_name((*_FAST, *_CONTROL, *_PAPER))
DEFAULT_PRESET = "dam"


def preset(name: str) -> Preset:
    """Return the preset of this name.

    Args:
        name: A key of `PRESETS`.
    """
    if not isinstance(name, str) or name not in PRESETS:
        raise ValueError(f"no preset {brief(name)}; choose one of {', '.join(PRESETS)}")
    return PRESETS[name]
