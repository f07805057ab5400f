// Small charts as SVG: lines with bands, areas, points. Nothing is loaded from elsewhere.
"use strict";

// Safe for colour-blind readers (Okabe and Ito).
const PALETTE = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a6d3b"];
const DASHES = ["", "7 3", "2 2", "9 3 2 3", "4 4", "12 3", ""];

function element(name, attributes, ...children) {
  const namespace = "http://www.w3.org/2000/svg";
  const made = document.createElementNS(namespace, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const MOST_POINTS = 2000; // of one series: a figure is not as many pixels wide

// Round numbers that cover an interval.
function ticks(low, high, number) {
  const rough = (high - low) / number || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough * 0.999);
  const first = Math.ceil(low / step - 1e-9);
  const found = [];
  // Counted, not added up: of large numbers a small step may be no step at all.
  for (let i = 0; i <= 2 * number && (first + i) * step <= high + step * 1e-9; i++) {
    const value = (first + i) * step;
    if (value !== found.at(-1)) found.push(value === 0 ? 0 : value);
  }
  return found;
}

function short(value) {
  const size = Math.abs(value);
  if (size >= 1e6) return `${+(value / 1e6).toPrecision(3)}M`;
  if (size >= 1e4) return `${+(value / 1e3).toPrecision(3)}k`;
  return `${+value.toPrecision(4)}`;
}

function extent(values) {
  const finite = values.filter(Number.isFinite);
  if (!finite.length) return [0, 1];
  let low = finite.reduce((a, b) => Math.min(a, b)), high = finite.reduce((a, b) => Math.max(a, b));
  if (low === high) [low, high] = [low - (Math.abs(low) || 1) / 2, high + (Math.abs(high) || 1) / 2];
  return [low, high];
}

// Of more points than can be seen, the lowest and the highest of each stretch, and both ends.
function thinned(series) {
  const { x, y } = series, last = x.length - 1;
  if (x.length <= MOST_POINTS) return series;
  const kept = new Set([0]);
  const stretch = Math.ceil((2 * x.length) / MOST_POINTS);
  for (let first = 0; first <= last; first += stretch) {
    let low = first, high = first;
    for (let i = first; i <= Math.min(first + stretch - 1, last); i++) {
      if (y[i] < y[low]) low = i;
      if (y[i] > y[high]) high = i;
    }
    kept.add(Math.min(low, high)).add(Math.max(low, high));
  }
  kept.add(last);
  const of = (values) => values && [...kept].map((i) => values[i]);
  return { ...series, x: of(x), y: of(y), low: of(series.low), high: of(series.high) };
}

// Draws into a figure. Each series: {label, x, y, kind: "line" | "area" | "points", low, high, faint, look}.
function draw(figure, { xLabel, yLabel, series: given, zero = false, diagonal = false }) {
  // A line through a single point is nothing to be seen.
  const series = given.map((each) => (each.x.length === 1 ? { ...each, kind: "points" } : thinned(each)));
  const width = 460, height = 300, left = 58, right = 12, top = 10, bottom = 42;
  const xs = series.flatMap((each) => each.x);
  const ys = series.flatMap((each) => each.y); // a band of few seeds may be wide: it is cut at the edge
  let [xLow, xHigh] = extent(xs);
  if (series.some((each) => each.kind === "points")) {
    const room = (xHigh - xLow) * 0.03; // or half of the outermost points would be cut
    [xLow, xHigh] = [xLow - room, xHigh + room];
  }
  let [yLow, yHigh] = extent(zero ? [0, ...ys] : ys);
  const margin = (yHigh - yLow) * 0.08;
  [yLow, yHigh] = [zero ? yLow : yLow - margin, yHigh + margin];
  const toX = (x) => left + ((x - xLow) / (xHigh - xLow)) * (width - left - right);
  const toY = (y) => height - bottom - ((y - yLow) / (yHigh - yLow)) * (height - top - bottom);
  const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
  svg.append(element("title", {}, `${yLabel} against ${xLabel}`));
  for (const y of ticks(yLow, yHigh, 5)) {
    svg.append(
      element("line", { x1: left, x2: width - right, y1: toY(y), y2: toY(y), class: "grid" }),
      element("text", { x: left - 6, y: toY(y) + 4, "text-anchor": "end" }, short(y)),
    );
  }
  for (const x of ticks(xLow, xHigh, 5)) {
    svg.append(element("text", { x: toX(x), y: height - bottom + 17, "text-anchor": "middle" }, short(x)));
  }
  svg.append(
    element("text", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, xLabel),
    element(
      "text",
      { transform: `translate(13 ${(top + height - bottom) / 2}) rotate(-90)`, "text-anchor": "middle" },
      yLabel,
    ),
  );
  const inside = element("svg", { x: left, y: top, width: width - left - right, height: height - top - bottom,
    viewBox: `${left} ${top} ${width - left - right} ${height - top - bottom}` });
  svg.append(inside);
  if (diagonal) {
    const ends = { x1: toX(xLow), y1: toY(xLow), x2: toX(xHigh), y2: toY(xHigh), class: "diagonal" };
    inside.append(element("line", ends));
  }
  const path = (x, y) => x.map((each, i) => `${i ? "L" : "M"}${toX(each).toFixed(1)} ${toY(y[i]).toFixed(1)}`).join("");
  for (const each of series) {
    const colour = PALETTE[each.look % PALETTE.length];
    if (each.low) {
      const back = each.x.map((_, i) => each.x.length - 1 - i);
      const outline = path([...each.x, ...back.map((i) => each.x[i])], [...each.high, ...back.map((i) => each.low[i])]);
      inside.append(element("path", { d: `${outline}Z`, fill: colour, opacity: 0.18 }));
    }
    if (each.kind === "points") {
      each.x.forEach((x, i) =>
        inside.append(element("circle", { cx: toX(x), cy: toY(each.y[i]), r: 3, fill: colour, opacity: 0.65 })),
      );
    } else if (each.kind === "area") {
      const closed = `${path(each.x, each.y)}L${toX(each.x.at(-1))} ${toY(0)}L${toX(each.x[0])} ${toY(0)}Z`;
      inside.append(element("path", { d: closed, fill: colour, opacity: 0.35 }));
    } else {
      const style = { d: path(each.x, each.y), stroke: colour, fill: "none", "stroke-dasharray": DASHES[each.look % DASHES.length] };
      inside.append(element("path", { ...style, "stroke-width": each.faint ? 0.7 : 1.9, opacity: each.faint ? 0.4 : 1 }));
    }
  }
  figure.querySelector("svg")?.remove();
  figure.prepend(svg);
  legend(figure, series.filter((each) => each.label && !each.faint));
}

function legend(figure, series) {
  figure.querySelector(".legend")?.remove();
  const box = document.createElement("div");
  box.className = "legend";
  for (const { label, look, kind } of series) {
    const key = element("svg", { viewBox: "0 0 26 10", class: "key" });
    const colour = PALETTE[look % PALETTE.length];
    const dash = DASHES[look % DASHES.length];
    if (kind === "points") key.append(element("circle", { cx: 13, cy: 5, r: 3.5, fill: colour }));
    else if (kind === "area") key.append(element("rect", { width: 26, height: 10, fill: colour, opacity: 0.35 }));
    else key.append(element("path", { d: "M0 5L26 5", stroke: colour, "stroke-width": 2, "stroke-dasharray": dash }));
    const item = document.createElement("span");
    item.append(key, ` ${label}`);
    box.append(item);
  }
  figure.append(box);
}
