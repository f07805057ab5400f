import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.rolling import batch, some_actions

GOLDEN = json.loads((Path(__file__).parent / "golden" / "supply_chain.json").read_text())


def observed(state: list[int]) -> np.ndarray[Any, Any]:
    return (np.array(state) / 20 - 1).astype(np.float32)


@pytest.mark.parametrize("episode", GOLDEN)
@pytest.mark.parametrize("num_envs", [1, 5])
def test_the_original_program_is_reproduced_exactly(episode: dict[str, Any], num_envs: int) -> None:
    env = batch("ttray/SupplyChain-v0", num_envs, demand=episode["demand"])
    observations, _ = env.reset(seed=0)
    np.testing.assert_array_equal(observations, [observed(episode["states"][0])] * num_envs)
    for period, action in enumerate(episode["actions"]):
        observations, rewards, terminations, _, _ = env.step([action] * num_envs)
        expected = observed(episode["states"][period + 1])
        np.testing.assert_array_equal(observations, [expected] * num_envs)
        assert rewards.tolist() == [episode["rewards"][period]] * num_envs
        assert terminations.tolist() == [period == 29] * num_envs
    assert np.rint((observations[0] + 1) * 20).tolist() == episode["states"][30]


def test_golden_episodes_survive_a_used_slot() -> None:
    first, second = GOLDEN[:2]
    env = batch("ttray/SupplyChain-v0", 1, demand=second["demand"])
    env.reset(seed=0)
    for action in first["actions"][:17]:
        env.step([action])
    env.reset(seed=0)
    rewards = [env.step([action])[1].item() for action in second["actions"]]
    assert rewards == second["rewards"]


def test_an_episode_terminates_after_its_periods_and_then_earns_nothing() -> None:
    env = batch("ttray/SupplyChain-v0", 4, periods=7)
    env.reset(seed=0)
    for step, action in enumerate(some_actions(env, 20, seed=0)):
        _, rewards, terminations, truncations, _ = env.step(action)
        assert terminations.all() == terminations.any() == (step >= 6)
        assert not truncations.any()
        assert (rewards == 0.0).all() == (step >= 7)


def test_demand_is_poisson_with_mean_twenty() -> None:
    slots = 20_000
    env = batch("ttray/SupplyChain-v0", slots)
    observations, _ = env.reset(seed=0)
    # Nothing arrives in the first periods and 100 units are enough: the stock falls by the demand.
    sold = []
    for _ in range(2):
        before = observations[:, 0]
        observations = env.step(np.zeros((slots, 3), np.int64))[0]
        sold.append((before - observations[:, 0]) * 20.0)
    for demand in sold:
        assert demand.mean() == pytest.approx(20.0, abs=4 * np.sqrt(20 / slots))
        assert demand.var() == pytest.approx(20.0, rel=0.05)
    assert np.corrcoef(sold)[0, 1] == pytest.approx(0.0, abs=4 / np.sqrt(slots))


def test_an_order_arrives_after_its_lead_time() -> None:
    env = batch("ttray/SupplyChain-v0", 1, demand=[0] * 30)
    env.reset(seed=0)
    env.step([[0, 0, 24]])
    stock = [env.step([[0, 0, 0]])[0][0, 2].item() for _ in range(11)]
    # Stage 3 has a lead time of 10: its order of period 0 is received in period 10.
    assert np.rint((np.array(stock) + 1) * 20).tolist() == [200] * 9 + [224] * 2


def told_in_words(
    demand: list[int], actions: list[list[int]], capacities: tuple[int, int, int]
) -> tuple[list[list[float]], list[float]]:
    """One episode, unit by unit and stage by stage: stocks `[periods, 3]` and rewards."""
    prices, unit_costs = (2.0, 1.5, 1.0, 0.75), (1.5, 1.0, 0.75, 0.5)
    backlog_costs, holding_costs = (0.1, 0.075, 0.05, 0.025), (0.15, 0.1, 0.05, 0.0)
    stock, backlog = [100.0, 100.0, 200.0], [0.0] * 4
    on_the_way: dict[tuple[int, int], float] = {}
    stocks, rewards = [], []
    for period, (customers, orders) in enumerate(zip(demand, actions, strict=True)):
        wanted = [customers + backlog[0]] + [orders[i] + backlog[i + 1] for i in range(3)]
        supply = [stock[1], stock[2], float("inf")]
        shipped = [min(wanted[i + 1], capacities[i], supply[i]) for i in range(3)]
        for stage, lead in enumerate((3, 5, 10)):
            on_the_way[period + lead, stage] = shipped[stage]
            stock[stage] += on_the_way.get((period, stage), 0.0)
        left = [min(stock[0], wanted[0]), *shipped]
        stock = [stock[i] - left[i] for i in range(3)]
        backlog = [wanted[i] - left[i] for i in range(4)]
        bought, kept, profit = [*shipped, shipped[-1]], [*stock, 0.0], 0.0
        for i in range(4):
            cost = unit_costs[i] * bought[i] + backlog_costs[i] * backlog[i]
            profit += prices[i] * left[i] - (cost + holding_costs[i] * kept[i])
        stocks.append(list(stock))
        rewards.append(0.97**period * profit)
    return stocks, rewards


@pytest.mark.parametrize("capacities", [(100, 90, 80), (15, 12, 9)])
@pytest.mark.parametrize("mean_demand", [5, 20, 60])
def test_the_batch_agrees_with_the_problem_told_in_words(
    capacities: tuple[int, int, int], mean_demand: int
) -> None:
    demand = np.random.default_rng(mean_demand).poisson(mean_demand, 30).tolist()
    env = batch("ttray/SupplyChain-v0", 8, demand=demand, capacities=capacities)
    actions = some_actions(env, 30, seed=1)
    env.reset(seed=0)
    steps = [env.step(action)[:2] for action in actions]
    for slot in range(8):
        stocks, rewards = told_in_words(demand, actions[:, slot].tolist(), capacities)
        seen = np.rint((np.array([step[0][slot, :3] for step in steps]) + 1) * 20)
        assert seen.tolist() == stocks
        assert [step[1][slot] for step in steps] == rewards
