"""`ttray plan --to`: what an evaluation to an accuracy will cost."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from ttray.cli.terminal import emit, out

if TYPE_CHECKING:
    from ttray.runs.cost import Cost


def plan_cost(
    to: str,
    *,
    policy: str | None,
    deterministic: bool,
    trust: bool,
    env: str | None,
    preset: str | None,
    horizon: int | None,
    gamma: float | None,
    delta: float,
    reward_range: tuple[float, float] | float | None,
    json: bool,
) -> None:
    """Prints it: from a pilot if there is a policy, else for the worst case."""
    from ttray.runs.cost import cost_in_the_worst_case, cost_of_policy
    from ttray.runs.presets import preset as named

    if preset is not None:
        chosen = named(preset)
        env = chosen.environment if env is None else env
        horizon = chosen.horizon if horizon is None else horizon
        gamma = chosen.gammas[-1] if gamma is None else gamma
    if policy is not None:
        found = cost_of_policy(
            policy,
            accuracy=to,
            deterministic=deterministic,
            trust=trust,
            environment=env,
            horizon=horizon,
            gamma=gamma,
            delta=delta,
            reward_range=reward_range,
        )
    else:
        found = cost_in_the_worst_case(
            accuracy=to, environment=env, horizon=horizon, gamma=gamma, delta=delta, reward_range=reward_range
        )
    emit(asdict(found), json, lambda: _render(found))


def _render(found: Cost) -> None:
    discount = "undiscounted" if found.gamma == 1.0 else f"γ = {found.gamma:g}"
    where = "" if found.environment is None else f"{found.environment}, "
    out.print(f"{where}{discount}, up to {found.horizon:,} steps, δ = {found.delta:g}")
    if found.num_expected_steps is not None:
        out.print(f"pilot       {found.num_pilot_steps:,} steps: a return of about {found.estimate:.4g}")
        about = float(f"{found.num_expected_steps:.2g}")
        out.print(f"to ±{found.accuracy:<7.3g} about {about:,.0f} steps, in rounds (ttray evaluate --to)")
    if found.worst_case is None:
        out.print("worst case  not known without a range of rewards: --range LOW HIGH")
        return
    assert found.reward_range is not None
    low, high = found.reward_range
    out.print(
        f"worst case  {found.worst_case:,} steps to ±{found.accuracy:.3g}, if nothing is known of the policy"
    )
    out.print(f"            (Hoeffding's interval, the paper's plan, rewards within {low:g} to {high:g})")
    if found.num_expected_steps is None:
        out.print("only the worst case: with --policy a pilot of it forecasts what it will take")
