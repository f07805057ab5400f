"""The four-stage supply chain with backlog, of Hubbs et al. 2020 (OR-Gym `InvManagement-v1`).

Section "Experiments" of the paper and its appendix "Environment Details", "Multi-Echelon Supply
Chain", with the paper's smaller action space and scaled observation. An implementation of its own,
but in the arithmetic order of the original, so that rewards agree bit for bit. The variant with
lost sales and other demand distributions are left out.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from ttray.boundary.fields import check_count, check_not_negative, check_vector, check_within
from ttray.envs.batched import ChoiceEnv, SingleEnv


def _fill_poisson(generator: np.random.Generator, out: NDArray[np.float64], mean: float) -> None:
    out[...] = generator.poisson(mean, out.shape)


def _normalised(units: NDArray[Any]) -> NDArray[np.float64]:
    return units / 20.0 - 1.0


class SupplyChainVectorEnv(ChoiceEnv):
    """The batched supply chain: m stages that order from the next one, which may not have enough.

    The observation `[slots, m * (1 + longest lead time)]` holds the stock at hand of each stage and
    the orders of the last days, oldest first, each as v / 20 - 1. An action `[slots, m]` is the
    order of each stage. The problem is one of finitely many periods: the step that completes the
    last one terminates, and a slot that is stepped on earns 0.

    Args:
        num_envs: Number of slots.
        periods: Periods after which an episode terminates.
        initial_inventory: Stock at hand of the m stages at the start.
        price: Price of a unit sold to a customer.
        unit_costs: Cost of a unit to each stage, and of its production; m + 1 values.
        backlog_costs: Cost of an unfilled unit at each stage and at the producer; m + 1 values.
        holding_costs: Cost of a unit at hand for a period; m values.
        capacities: Most units that a stage's supplier ships in a period; m values.
        lead_times: Periods from order to arrival; m values.
        mean_demand: Mean of the customers' Poisson demand in a period.
        discount: Weight of a period's profit relative to the one before.
        max_order: Largest order of a stage.
        demand: Fixed demand of each period, `[periods]`, in place of the Poisson one.
        block_size: Steps of noise drawn at once; changes the speed, never a value.
    """

    env_id = "ttray/SupplyChain-v0"

    def __init__(
        self,
        num_envs: int = 1,
        *,
        periods: int = 30,
        initial_inventory: Sequence[int] = (100, 100, 200),
        price: float = 2.0,
        unit_costs: Sequence[float] = (1.5, 1.0, 0.75, 0.5),
        backlog_costs: Sequence[float] = (0.1, 0.075, 0.05, 0.025),
        holding_costs: Sequence[float] = (0.15, 0.1, 0.05),
        capacities: Sequence[int] = (100, 90, 80),
        lead_times: Sequence[int] = (3, 5, 10),
        mean_demand: float = 20.0,
        discount: float = 0.97,
        max_order: int = 24,
        demand: Sequence[int] | None = None,
        block_size: int = 32,
    ) -> None:
        periods = check_count("periods", periods, 1, 10_000)
        max_order = check_count("max_order", max_order, 1, 10_000)
        stages = len(initial_inventory)
        initial = check_vector("initial_inventory", initial_inventory, stages)
        limits = check_vector("capacities", capacities, stages)
        lead_times = [check_count("lead_times", lead, 0, 1_000) for lead in lead_times]
        longest = max(lead_times, default=0)
        if len(lead_times) != stages or longest < 1:
            raise ValueError(
                f"lead_times must hold {stages} integers, one of them at least 1, found {lead_times!r}"
            )
        orders_high = np.full(stages * longest, _normalised(np.array(max_order)))
        super().__init__(
            num_envs,
            num_choices=max_order + 1,
            num_components=stages,
            observation_space=gymnasium.spaces.Box(
                np.full(stages * (1 + longest), -1.0, np.float32),
                np.append(_normalised(initial + periods * limits), orders_high).astype(np.float32),
                dtype=np.float32,
            ),
            values_per_step=1 if demand is None else 0,
            block_size=block_size,
            fill=partial(_fill_poisson, mean=check_not_negative("mean_demand", mean_demand)),
        )
        self._periods = periods
        self._demand = None if demand is None else check_vector("demand", demand, periods)
        self._lead_times = lead_times
        self._initial = initial[:, None]
        self._capacities = self._per_slot(limits)
        costs = check_vector("unit_costs", unit_costs, stages + 1)
        # What one stage pays for a unit is what the next one earns.
        self._prices = self._per_slot(np.append(check_not_negative("price", price), costs[:-1]))
        self._unit_costs = self._per_slot(costs)
        backlog = check_vector("backlog_costs", backlog_costs, stages + 1)
        self._backlog_costs = self._per_slot(backlog)
        holding = check_vector("holding_costs", holding_costs, stages)
        self._holding_costs = self._per_slot(np.append(holding, 0.0))
        discount = check_within("discount", discount, 0.0, 1.0)
        # One weight more than there are periods: a finished slot earns 0.
        self._weights = np.array([discount**period for period in range(periods)] + [0.0])
        self._order_levels = _normalised(np.arange(max_order + 1)).astype(np.float32)

        # Stages come first in these arrays: an operation on a stage is one on a contiguous row.
        # The producer, the last row, holds no stock.
        self._stock = np.zeros((stages + 1, num_envs))
        self._backlog = np.zeros((stages + 1, num_envs))
        # A ring over time: row `clock` arrives in this step, row `clock + lead` later.
        self._arrivals = np.zeros((longest + 1, stages, num_envs))
        self._clock = 0
        self._orders = np.zeros((num_envs, stages * longest), np.float32)
        self._period = np.zeros(num_envs, np.int64)

    def _restart(self, slots: NDArray[np.intp]) -> None:
        self._stock[:-1, slots] = self._initial
        self._backlog[:, slots] = 0.0
        self._arrivals[:, :, slots] = 0.0
        self._orders[slots] = self._order_levels[0]
        self._period[slots] = 0

    def _advance(self, actions: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        count = len(actions)
        stock = self._stock[:-1, :count]
        stages = len(stock)
        wanted = self._backlog[:, :count].copy()
        wanted[0] += self._next_demand(count)
        wanted[1:] += actions.T

        # Rows: units sold to the customer, shipped to each stage, and produced (= last shipment).
        units = np.empty((stages + 2, count))
        shipped = units[1:-1]
        np.minimum(wanted[1:], self._capacities[:, :count], out=shipped)
        np.minimum(shipped[:-1], stock[1:], out=shipped[:-1])  # the producer is never short
        units[-1] = shipped[-1]

        for stage, lead in enumerate(self._lead_times):
            self._arrivals[(self._clock + lead) % len(self._arrivals), stage, :count] = shipped[stage]
        stock += self._arrivals[self._clock, :, :count]
        self._clock = (self._clock + 1) % len(self._arrivals)

        np.minimum(stock[0], wanted[0], out=units[0])
        stock -= units[:stages]
        backlog = wanted - units[:-1]
        self._backlog[:, :count] = backlog

        # The grouping and the order of the sums are the original's, to the last bit.
        costs = self._unit_costs[:, :count] * units[1:]
        costs += self._backlog_costs[:, :count] * backlog
        costs += self._holding_costs[:, :count] * self._stock[:, :count]
        profits = self._prices[:, :count] * units[:-1]
        profits -= costs
        period = self._period[:count]
        rewards = self._weights.take(np.minimum(period, self._periods))
        rewards *= np.add.reduce(profits, axis=0)

        period += 1
        # A copy, because NumPy would have to buffer the overlapping rows anyhow.
        self._orders[:count, :-stages] = self._orders[:count, stages:].copy()
        self._orders[:count, -stages:] = self._order_levels.take(actions)
        return rewards, period >= self._periods

    def _observe(self, count: int) -> NDArray[np.float32]:
        stock = self._stock[:-1, :count]
        observations = np.empty((count, *self.single_observation_space.shape), np.float32)
        observations[:, : len(stock)] = _normalised(stock).T
        observations[:, len(stock) :] = self._orders[:count]
        return observations

    def _per_slot(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Repeat `[stages]` to `[stages, slots]`: equal shapes cost a third of a broadcast."""
        return np.repeat(values[:, None], self.num_envs, axis=1)

    def _next_demand(self, count: int) -> NDArray[np.float64]:
        if self._demand is None:
            return self._noise.next_step()[0, :count]
        return self._demand[np.minimum(self._period[:count], self._periods - 1)]


class SupplyChainEnv(SingleEnv):
    """The supply chain as a single environment; keywords as `SupplyChainVectorEnv`."""

    batch_class = SupplyChainVectorEnv
