"""The settings of a critic, and of what TTPO does with one."""

from __future__ import annotations

from typing import Annotated

from ttray.settings.model import setting, settings_class
from ttray.settings.rules import HIDDEN_SIZES, MAX_ROUNDS, NOT_NEGATIVE, SHARE, count, positive

_MAX_REUSED = 100  # batches whose rows are kept


@settings_class
class CriticSettings:
    """How a critic learns, where there is one, and what of earlier batches is kept."""

    critic_hidden_sizes: Annotated[tuple[int, ...], HIDDEN_SIZES] = setting(
        "Units of the critic's hidden layers, unless the module has a value function of its own.",
        default=(64, 64),
    )
    critic_passes: Annotated[int, count(MAX_ROUNDS)] = setting(
        "How often the critic sees each row in the lesson after a batch.", default=5
    )
    critic_learning_rate: Annotated[float, positive(1.0)] = setting("Adam's, for the critic.", default=1e-3)
    trace_decay: Annotated[float, SHARE] = setting(
        "λ, what surprises of later steps count for in advantages and in what the critic learns: 0 trusts "
        "the critic, 1 the rewards.",
        default=0.97,
    )
    num_reused_batches: Annotated[int, count(_MAX_REUSED)] = setting(
        "Batches that the critic learns from, and TTPO's policy too: the newest one and those before it.",
        default=4,
    )


@settings_class
class StateSettings:
    """Of TTPO alone, which weighs states one by one."""

    divergence_weight: Annotated[float, NOT_NEGATIVE] = setting(
        "h, over how many steps divergences make the width grow: larger keeps the policy closer to the one "
        "that collected. Of TTPO.",
        default=40.0,
    )
    entropy_weight: Annotated[float, NOT_NEGATIVE] = setting(
        "What the policy's entropy counts for beside advantages of standard deviation 1. Of TTPO.",
        default=0.0,
    )
