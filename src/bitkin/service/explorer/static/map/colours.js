// What the colours of the map mean: a colour and shape per value, or a ramp from small to large.

import { el, svg } from "../shared/dom.js";
import { count, counted, cut, measure } from "../shared/words.js";

const COLOURS = 8; // of the palette
const MOST_VALUES = 16; // beyond, values share “others”
const FEW_NUMBERS = 12; // whole numbers that differ, up to which each has its own colour
const STEPS = 9; // of the ramp

/** Return {kindOf(value), shapeOf(value), legend(onToggle)} for the values of points. */
export function colouring(points, field) {
  const values = points.map((point) => point.value).filter((value) => value !== null);
  if (field === "" || values.length === 0) return plain(field, points.length);
  const different = new Set(values);
  const areNumbers = values.every((value) => typeof value === "number");
  if (areNumbers && !(different.size <= FEW_NUMBERS && values.every(Number.isInteger))) return ramp(values, points.length);
  return groups(values, points.length);
}

function plain(field, n) {
  return {
    kindOf: () => "k1",
    shapeOf: () => "circle",
    groupOf: () => "",
    legend: () => (field === "" ? null : el("p", { class: "soft small" }, `None of the ${counted(n, "row")} has a value of “${field}” that can be coloured.`)),
  };
}

function ramp(values, n) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const step = (value) => (high > low ? Math.min(STEPS - 1, Math.floor(((value - low) / (high - low)) * STEPS)) : 0);
  const missing = n - values.length;
  return {
    kindOf: (value) => (value === null ? "none" : `r${step(value) + 1}`),
    shapeOf: () => "circle",
    groupOf: () => "",
    legend: () => el("div", { class: "ramp-legend" },
      el("span", {}, measure(low)),
      svg("svg", { viewBox: `0 0 ${STEPS * 18} 12`, width: STEPS * 18, height: 12, role: "img", "aria-label": `Colours from ${measure(low)} to ${measure(high)}` },
        Array.from({ length: STEPS }, (_, i) => svg("rect", { class: `r${i + 1}`, x: i * 18, y: 0, width: 18.3, height: 12 }))),
      el("span", {}, measure(high)),
      missing > 0 && el("span", { class: "soft" }, `${counted(missing, "row has", "rows have")} none`)),
  };
}

function groups(values, n) {
  const sizes = new Map();
  for (const value of values) sizes.set(value, (sizes.get(value) ?? 0) + 1);
  const areNumbers = values.every((value) => typeof value === "number");
  const bySize = [...sizes.keys()].sort((a, b) => sizes.get(b) - sizes.get(a) || String(a).localeCompare(String(b)));
  const named = bySize.slice(0, bySize.length > MOST_VALUES ? MOST_VALUES - 1 : MOST_VALUES);
  // in an order that does not hang on the sample
  named.sort((a, b) => (areNumbers ? a - b : String(a).localeCompare(String(b), "en", { numeric: true })));
  const places = new Map(named.map((value, i) => [value, i]));
  const others = values.filter((value) => !places.has(value)).length;
  const missing = n - values.length;
  const kindAt = (i) => `k${(i % COLOURS) + 1}`;
  const shapeAt = (i) => (i < COLOURS ? "circle" : "diamond");
  return {
    kindOf: (value) => (places.has(value) ? kindAt(places.get(value)) : "none"),
    shapeOf: (value) => (places.has(value) ? shapeAt(places.get(value)) : "circle"),
    groupOf: (value) => (value === null ? "missing" : places.has(value) ? `v${places.get(value)}` : "others"),
    legend: (onToggle) => el("ul", { class: "legend", "aria-label": "Values; press one to see it alone" },
      named.map((value, i) => legendItem(`v${i}`, kindAt(i), shapeAt(i), value === "" ? "(empty)" : cut(String(value), 40), sizes.get(value), onToggle)),
      others > 0 && legendItem("others", "none", "circle", `${counted(bySize.length - named.length, "other value")}`, others, onToggle),
      missing > 0 && legendItem("missing", "none", "circle", "no value", missing, onToggle)),
  };
}

function legendItem(group, kind, shape, words, n, onToggle) {
  const made = el("button", { type: "button", class: "legend-item", "aria-pressed": "false", "data-group": group, on: { click: () => onToggle(made, group) } },
    svg("svg", { viewBox: "-7 -7 14 14", width: 14, height: 14, "aria-hidden": "true" }, mark(shape, 5, { class: `mark ${kind}` })),
    el("span", {}, words),
    el("span", { class: "soft" }, count(n)));
  return el("li", {}, made);
}

/** A mark of a shape around the origin. */
export function mark(shape, size, attributes) {
  if (shape === "circle") return svg("circle", { r: size, ...attributes });
  const reach = size * 1.25;
  return svg("path", { d: `M0,${-reach} L${reach},0 L0,${reach} L${-reach},0 Z`, ...attributes });
}
