// The plan explorer: five sliders, one plan. An address ending in #horizon=360&budget=8640 sets its values.
"use strict";

const explored = { horizon: 360, budget: 8640, gamma: 0.95, delta: 0.1, accuracy: 0.5, ...DATA.explorer };
const MOST = { horizon: 2000, budget: 1e7 };
const LONGEST = 20000; // a run's, or an address's: the answer for more would take seconds

// From the position of a slider to its value, and back.
const SLIDERS = {
  horizon: {
    value: (at) => Math.round(MOST.horizon ** (at / 1000)),
    position: (value) => (1000 * Math.log(value)) / Math.log(MOST.horizon),
  },
  budget: {
    // From one trajectory to the most, so that there is no budget that the horizon does not allow.
    value: (at) => Math.max(explored.horizon, +(explored.horizon * (MOST.budget / explored.horizon) ** (at / 1000)).toPrecision(3)),
    position: (value) => (1000 * Math.log(value / explored.horizon)) / Math.log(MOST.budget / explored.horizon),
  },
  gamma: {
    value: (at) => (at >= 1000 ? 1 : +(1 - 10 ** (-0.3 - (3.7 * at) / 1000)).toFixed(4)),
    position: (value) => (value >= 1 ? 1000 : ((-Math.log10(1 - value) - 0.3) / 3.7) * 1000),
  },
  delta: { value: (at) => at / 100, position: (value) => value * 100 },
  accuracy: {
    value: (at) => +(10 ** (-2 + (4 * at) / 1000)).toPrecision(3),
    position: (value) => ((Math.log10(value) + 2) / 4) * 1000,
  },
};

function explore() {
  explored.horizon = Math.min(explored.horizon, LONGEST);
  const { horizon, gamma, delta, accuracy } = explored;
  const budget = (explored.budget = Math.max(explored.budget, horizon));
  for (const name of Object.keys(SLIDERS)) {
    document.getElementById(name).value = Math.round(SLIDERS[name].position(explored[name]));
    show(`${name}-value`, explored[name].toLocaleString("en", { maximumFractionDigits: 6 }));
  }
  const samples = truncated(horizon, budget, gamma);
  const plain = uniform(horizon, budget);
  const width = hoeffdingWidth(samples, gamma, delta, 1);
  const plainWidth = hoeffdingWidth(plain, gamma, delta, 1);
  show("num-trajectories", count(samples[0]));
  show("width", `±${+width.toPrecision(4)}`);
  show("uniform-width", `±${+plainWidth.toPrecision(4)}`);
  show("narrower", `${(100 * (1 - width / plainWidth)).toFixed(1)} %`);
  show("required", count(requiredBudget(truncated, accuracy, horizon, gamma, delta, 1)));
  show("uniform-required", count(requiredBudget(uniform, accuracy, horizon, gamma, delta, 1)));
  show("plan-command", `ttray plan --horizon ${horizon} --budget ${budget} --gamma ${gamma} --delta ${delta} --accuracy ${accuracy}`);
  const steps = [...samples.keys()];
  draw(document.getElementById("explored"), {
    xLabel: "step",
    yLabel: "samples",
    zero: true,
    series: [
      { label: "truncated", x: steps, y: [...samples], kind: "area", look: 0 },
      { label: "uniform", x: steps, y: [...plain], kind: "line", look: 1 },
    ],
  });
}

function show(id, text) {
  document.getElementById(id).textContent = text;
}

function count(number) {
  return number === null ? "beyond counting" : number.toLocaleString("en");
}

function followAddress() {
  for (const [name, value] of new URLSearchParams(location.hash.slice(1))) {
    if (name in SLIDERS && Number(value) > 0) explored[name] = Number(value);
  }
  explore();
}

for (const name of Object.keys(SLIDERS)) {
  document.getElementById(name).addEventListener("input", (event) => {
    explored[name] = SLIDERS[name].value(Number(event.target.value));
    explore();
  });
}
addEventListener("hashchange", followAddress);
followAddress();
