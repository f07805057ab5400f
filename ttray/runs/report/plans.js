// Data collection strategies, as in ttray.plans.dcs and ttray.plans.planners: the same formulas, term by term.
"use strict";

const MAX_BUDGET = 2 ** 53 - 1; // beyond it, neither language counts exactly

// √c_t = γ^t sqrt(1 + 2 Σ_{k=1}^{T-1-t} γ^k)
function rootStepCosts(horizon, gamma) {
  const costs = new Float64Array(horizon);
  for (let t = 0; t < horizon; t++) {
    const left = horizon - 1 - t;
    const later = gamma < 1 ? (gamma * -Math.expm1(left * Math.log(gamma))) / (1 - gamma) : left;
    costs[t] = gamma ** t * Math.sqrt(1 + 2 * later);
  }
  return costs;
}

// The paper's approximately optimal strategy: samples per step, all of the budget spent.
function truncated(horizon, budget, gamma) {
  const costs = rootStepCosts(horizon, gamma);
  let head = 0, total = 0, headTotal = 0;
  for (let t = 0; t < horizon; t++) {
    total += costs[t];
    if (costs[t] * (budget - horizon + t + 1) > total) {
      head++;
      headTotal = total;
    }
  }
  const samples = new Float64Array(horizon).fill(1);
  for (let t = 0; t < head; t++) {
    samples[t] = Math.max(Math.floor((costs[t] / headTotal) * (budget - horizon + head)), 1);
  }
  for (let over = budget - sum(samples); over !== 0; over = budget - sum(samples)) {
    const width = over > 0 ? head : samples.filter((n) => n > 1).length;
    const shared = Math.max(over, -width);
    const each = Math.floor(shared / width);
    for (let t = 0; t < width; t++) samples[t] += each + (t < shared - each * width ? 1 : 0);
  }
  return samples;
}

function uniform(horizon, budget) {
  return new Float64Array(horizon).fill(Math.floor(budget / horizon));
}

function hoeffdingWidth(samples, gamma, delta, rewardRange) {
  const costs = rootStepCosts(samples.length, gamma);
  let squared = 0;
  samples.forEach((n, t) => (squared += (costs[t] * costs[t]) / n));
  return rewardRange * Math.sqrt(0.5 * Math.log(2 / delta) * squared);
}

// The smallest budget whose width is at most epsilon, null if none can be counted.
function requiredBudget(planner, epsilon, horizon, gamma, delta, rewardRange) {
  const unit = planner === uniform ? horizon : 1;
  const suffices = (units) =>
    hoeffdingWidth(planner(horizon, units * unit, gamma), gamma, delta, rewardRange) <= epsilon;
  let low = horizon / unit, high = low;
  while (!suffices(high)) {
    if (high * unit > MAX_BUDGET / 2) return null;
    low = high;
    high *= 2;
  }
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (suffices(middle)) high = middle;
    else low = middle + 1;
  }
  // The width of a truncated strategy can rise with a sample, hence a look at the budgets just below.
  for (let below = Math.max(horizon, high - 8); unit === 1 && below < high; below++) {
    if (suffices(below)) return below;
  }
  return high * unit;
}

function sum(values) {
  return values.reduce((total, value) => total + value, 0);
}
