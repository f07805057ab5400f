// The runs of the report: curves, gains, plans, times, settings.
"use strict";

const at = (id) => document.getElementById(id);

function curves(figure, column, yLabel) {
  const series = [];
  DATA.groups.forEach((group, look) => {
    const x = group.num_env_steps.map((steps) => steps / 1000);
    const { mean, low, high, seeds } = group[column];
    if (seeds.length > 1) seeds.forEach((y) => series.push({ x: x.slice(0, y.length), y, faint: true, look }));
    series.push({ label: group.label, x: x.slice(0, mean.length), y: mean, low, high, look });
  });
  draw(at(figure), { xLabel: "environment steps (thousands)", yLabel, series });
}

function gains() {
  const series = DATA.runs.map((run, look) => ({ label: run.label, x: run.predicted, y: run.measured, kind: "points", look }));
  draw(at("gains"), { xLabel: "predicted gain of the bound", yLabel: "measured gain of the return", series, diagonal: true });
  table(at("followed"), ["run", "predicted", "measured", "rose"], DATA.runs.map((run) => [
    run.label,
    short(sum(run.predicted)),
    short(sum(run.measured)),
    `${run.measured.filter((gain) => gain > 0).length} of ${run.measured.length}`,
  ]));
}

function plans() {
  const over = (name, kind) => DATA.plans.filter((plan) => plan[name]).map((plan, look) => ({
    label: plan.label, x: [...plan[name].keys()], y: plan[name], kind, look,
  }));
  draw(at("samples"), { xLabel: "step", yLabel: "samples of the step", series: over("samples", "line"), zero: true });
  const measured = over("measured_share", "line").map((each) => ({ ...each, label: `${each.label}, measured` }));
  const worst = over("worst_case_share", "line").map((each) => ({ ...each, label: `${each.label}, worst case`, look: each.look + measured.length }));
  draw(at("variance"), { xLabel: "step", yLabel: "variance up to the step", series: [...measured, ...worst] });
}

function phases() {
  for (const run of DATA.runs) {
    const parts = Object.entries(run.phases);
    const total = sum(Object.values(run.phases));
    const line = document.createElement("p");
    line.textContent = `${run.label}: ${short(total)} s. ` +
      parts.map(([name, seconds]) => `${name} ${((100 * seconds) / total || 0).toFixed(0)} %`).join(", ");
    const bar = document.createElement("div");
    bar.className = "bar";
    parts.forEach(([name, seconds], look) => {
      const part = document.createElement("span");
      part.style.cssText = `width: ${(100 * seconds) / total}%; background: ${PALETTE[look]}; opacity: 0.75`;
      part.title = `${name}: ${short(seconds)} s`;
      bar.append(part);
    });
    at("phases").append(line, bar);
  }
}

function settings() {
  const names = [...new Set(DATA.runs.flatMap((run) => Object.keys(run.settings)))];
  const text = (value) => (value === null || value === undefined ? "–" : Array.isArray(value) ? value.join(", ") : String(value));
  const rows = names.map((name) => [name, ...DATA.runs.map((run) => text(run.settings[name]))]);
  const lines = table(at("values"), ["", ...DATA.runs.map((run) => run.label)], rows);
  rows.forEach((row, i) => lines[i].classList.toggle("differs", new Set(row.slice(1)).size > 1));
}

function tiles() {
  const all = (of) => DATA.runs.map(of);
  const last = (values) => values[values.length - 1];
  const best = DATA.groups.reduce((a, b) => (last(a.discounted_return.mean) < last(b.discounted_return.mean) ? b : a));
  const { mean } = best.discounted_return;
  const seconds = sum(all((run) => sum(Object.values(run.phases))));
  const steps = DATA.groups.reduce((most, group) => Math.max(most, last(group.num_env_steps)), 0);
  const found = [
    [`${short(mean[0])} → ${short(last(mean))}`, DATA.groups.length > 1 ? `return, first to last; ${best.label}` : "return, first to last batch"],
    [short(steps), "environment steps" + (DATA.runs.length > 1 ? " of the longest run" : "")],
    [short(all((run) => run.predicted.length + 1).reduce((a, b) => Math.max(a, b))), "iterations"],
    [seconds < 120 ? `${short(seconds)} s` : `${short(seconds / 60)} min`, "of training, added up"],
  ];
  for (const [value, meaning] of found) {
    const tile = document.createElement("div");
    tile.append(
      Object.assign(document.createElement("strong"), { textContent: value }),
      Object.assign(document.createElement("span"), { textContent: meaning }),
    );
    at("tiles").append(tile);
  }
}

function table(target, headings, rows) {
  const line = (cells, kind) => {
    const made = document.createElement("tr");
    for (const cell of cells) made.append(Object.assign(document.createElement(kind), { textContent: cell }));
    return made;
  };
  const lines = rows.map((row) => line(row, "td"));
  target.replaceChildren(line(headings, "th"), ...lines);
  return lines;
}

if (DATA.runs.length) {
  tiles();
  curves("discounted", "discounted_return", "discounted return");
  curves("undiscounted", "episode_return_mean", "undiscounted return");
  gains();
  plans();
  phases();
  settings();
  at("commands").textContent = DATA.runs.map((run) => run.repeat).join("\n");
} else {
  document.querySelector("main").remove();
}
