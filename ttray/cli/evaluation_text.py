"""The output of `ttray evaluate`: while it collects, when it is stopped, and at the end."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ttray.cli.steps import advice, steps
from ttray.cli.terminal import emit, err, out

if TYPE_CHECKING:
    from ttray.runs.evaluation import Evaluation
    from ttray.runs.return_interval import ReturnInterval
    from ttray.runs.to_accuracy import EvaluationStopped
    from ttray.service.progress import OnProgress


def watchers(
    visible: bool | None, tell: Callable[[Any], str] | None = None
) -> tuple[OnProgress | None, Callable[[Any], None] | None]:
    """Who is told of progress and of rounds.

    Args:
        visible: None for a line that is rewritten, on a terminal only; True for a line per round without one;
            False for neither.
        tell: What to say of a round; the interval unless given.
    """
    if visible is None or (visible and err.is_terminal):
        return None, None

    from ttray.runs.rounds_line import told

    def on_round(found: Any) -> None:
        if visible:
            err.print(f"round {found.num_rounds}: {(tell or told)(found)}")

    return lambda _: None, on_round


def print_stopped(stopped: EvaluationStopped, *, as_json: bool) -> None:
    """What is known so far, and how to go on."""
    if stopped.so_far is None:
        err.print("stopped in the first round: nothing is known yet")
    else:
        found = stopped.so_far
        emit(found.to_dict(), as_json, lambda: out.print(str(found)))
    if stopped.directory is None:
        err.print("with --directory it could go on from its rounds; this one begins anew")
    else:
        err.print(f"run the same command again to go on from the rounds in {stopped.directory}")


def print_interval(found: ReturnInterval, plot: Path | None = None) -> None:
    """The result of rounds, or of tables."""
    out.print(str(found))
    if not found.is_guaranteed:
        out.print("--range LOW HIGH, the smallest and largest possible reward, would guarantee it")
    if plot is not None:
        out.print(f"picture       {plot}")


def print_fixed(found: Evaluation, is_given: bool) -> None:
    """The result of a batch of fixed size; with a range of rewards that was given, or is declared."""
    out.print(f"{found.environment}, γ = {found.gamma}")
    rounds = f", {found.num_rounds} rounds" if found.num_rounds > 1 else ""
    made = steps(found.num_env_steps, found.num_planned_steps)
    out.print(f"{made} in {found.num_trajectories:,} trajectories{rounds}")
    if found.num_look_steps:
        out.print(f"{found.num_look_steps:,} more to see how long episodes are")
    elif more := advice(found.num_env_steps, found.num_planned_steps):
        out.print(f"{more}, or --real-steps")
    out.print(f"return        {found.estimate:.4f}")
    label = f"{1.0 - found.delta:.0%} interval"
    if math.isfinite(found.low):
        out.print(f"{label}  {found.low:.4f} to {found.high:.4f} (Student's: about, for many trajectories)")
    else:
        out.print(f"{label}  unknown: the samples of each step are equal, others may differ")
    if found.guaranteed:
        low, high = found.guaranteed
        kind = "as given" if is_given else "as the environment says"
        out.print(f"guaranteed    {low:.4f} to {high:.4f} (rewards within {found.reward_range:.4g}, {kind})")
        out.print(f"or, by bets   {found.betting.low:.4f} to {found.betting.high:.4f} (guaranteed as well)")
    else:
        out.print("no guarantee  that needs the range of possible rewards: --range LOW HIGH")
        out.print(f"              (recorded is {found.reward_range:.4g}, which others may leave)")
