// How well the bits of codes are used: how often each is set, and which say the same.

import { el, svg } from "../shared/dom.js";
import { emptyState } from "../shared/messages.js";
import { count, counted, measure, percent } from "../shared/words.js";
import { figure, frame } from "../plots/figure.js";

const LEAST_FULL = 0.1; // the correlation that has full colour at least
const SHADES = 24; // of a colour
const UNEVEN = 0.2; // of balance, beyond which a bit says little

/** Show both, or say why there is nothing to show. */
export function bitFigures(bits) {
  if (bits.sample === 0) return [emptyState("No codes to look at.", "Bits are shown once there are rows.")];
  return [balance(bits), correlation(bits)].filter((one) => one !== null);
}

function balance(bits) {
  const shares = bits.balance;
  const worst = shares.reduce((at, share, i) => (Math.abs(share - 0.5) > Math.abs(shares[at] - 0.5) ? i : at), 0);
  const uneven = shares.filter((share) => share < UNEVEN || share > 1 - UNEVEN).length;
  const label = `Share of rows in which each of ${bits.n_bits} bits is 1. The most uneven is bit ${worst}, at ${percent(shares[worst])}.`;
  const radius = shares.length > 300 ? 1.6 : 2.6;
  const draw = (width) => {
    const { drawing, body, x, y } = frame(width, 220, label, [0, bits.n_bits], [0, 1], {
      xName: "bit", yName: "share of ones", yTicks: [0, 0.25, 0.5, 0.75, 1],
    });
    body.append(
      svg("line", { class: "ideal", x1: x.start, x2: x.end, y1: y.at(0.5), y2: y.at(0.5) }),
      ...shares.map((share, i) => svg("circle", { class: share < UNEVEN || share > 1 - UNEVEN ? "dot bad" : "dot", cx: x.at(i + 0.5), cy: y.at(share), r: radius }, svg("title", {}, `bit ${i}: ${percent(share)}`))),
    );
    return drawing;
  };
  return figure("Bit balance", [
    el("b", {}, `${measure(bits.entropy)} of ${counted(bits.n_bits, "bit")}`),
    ` of information, if bits were independent: at best each is 1 in half of the rows. `,
    uneven ? `${counted(uneven, "bit is", "bits are")} 1 in fewer than ${percent(UNEVEN)} or more than ${percent(1 - UNEVEN)}. ` : "",
    `Most uneven: bit ${worst}, ${percent(shares[worst])}. From ${counted(bits.sample, "row")}${bits.empty ? `, without ${count(bits.empty)} that have nothing to hash` : ""}.`,
    bits.note ? el("span", { class: "block" }, bits.note) : null,
  ], draw);
}

function correlation({ correlation: { bits, matrix }, n_bits: nBits }) {
  const n = bits.length;
  if (n < 2) return null;
  const { strongest, pair, mean } = strongestPair(bits, matrix);
  const full = Math.min(1, Math.max(LEAST_FULL, Math.abs(strongest)));
  const label = `Correlation of every two of ${n} bits, ${measure(mean)} on average without signs; the strongest is ${measure(strongest)}, of bits ${pair[0]} and ${pair[1]}.`;
  const pointed = el("span", { class: "soft" }, " Point at a cell to read it.");
  const draw = (width) => {
    const side = Math.min(width - 112, 300);
    const cell = side / n;
    const [left, top] = [34, 6];
    const edge = (cell + 0.3).toFixed(2); // without gaps
    const cells = shades(matrix, full).map(([level, places]) => svg("path", {
      class: level > 0 ? "positive" : "negative", "fill-opacity": (Math.abs(level) / SHADES).toFixed(3),
      d: places.map(([i, j]) => `M${(left + j * cell).toFixed(2)},${(top + i * cell).toFixed(2)}h${edge}v${edge}h-${edge}z`).join(""),
    }));
    const drawing = svg("svg", { class: "plot", viewBox: `0 0 ${width} ${side + 40}`, width, height: side + 40, role: "img", "aria-label": label },
      svg("rect", { class: "heat-room", x: left, y: top, width: side, height: side }),
      svg("g", {}, cells),
      tickPlaces(n).map((at) => [
        svg("text", { class: "tick", x: left - 5, y: top + (at + 0.5) * cell + 4, "text-anchor": "end" }, String(bits[at])),
        svg("text", { class: "tick", x: left + (at + 0.5) * cell, y: top + side + 16, "text-anchor": "middle" }, String(bits[at])),
      ]),
      svg("text", { class: "tick", x: left + side, y: top + side + 31, "text-anchor": "end" }, "bit"),
      colourBar(left + side + 14, top, side, full));
    drawing.addEventListener("pointermove", (event) => {
      const box = drawing.getBoundingClientRect();
      const j = Math.floor((event.clientX - box.left - left) / cell);
      const i = Math.floor((event.clientY - box.top - top) / cell);
      if (i >= 0 && j >= 0 && i < n && j < n) pointed.textContent = ` Bits ${bits[i]} and ${bits[j]}: ${i === j ? "the same" : measure(matrix[i][j])}.`;
    });
    return drawing;
  };
  return figure("Bit correlation", [
    el("b", {}, `${measure(mean)} on average`),
    `, without signs; at best all are 0. Strongest: bits ${pair[0]} and ${pair[1]}, ${measure(strongest)}. `,
    n < nBits ? `${n} of ${count(nBits)} bits are shown, evenly chosen.` : "",
    pointed,
  ], draw);
}

/** Gather the cells of a matrix by their shade: a path of each draws quicker than thousands of squares. */
function shades(matrix, full) {
  const found = new Map();
  matrix.forEach((row, i) => row.forEach((value, j) => {
    const level = Math.round(Math.max(-1, Math.min(1, value / full)) * SHADES);
    if (i === j || level === 0) return;
    if (!found.has(level)) found.set(level, []);
    found.get(level).push([i, j]);
  }));
  return [...found];
}

function strongestPair(bits, matrix) {
  let strongest = 0;
  let pair = [bits[0], bits[1]];
  let sum = 0;
  for (let i = 0; i < bits.length; i += 1) {
    for (let j = i + 1; j < bits.length; j += 1) {
      sum += Math.abs(matrix[i][j]);
      if (Math.abs(matrix[i][j]) > Math.abs(strongest)) [strongest, pair] = [matrix[i][j], [bits[i], bits[j]]];
    }
  }
  return { strongest, pair, mean: Math.round((sum / ((bits.length * (bits.length - 1)) / 2)) * 1000) / 1000 };
}

function tickPlaces(n) {
  const step = Math.max(1, Math.ceil(n / 5 / 4) * 4);
  return Array.from({ length: Math.ceil(n / step) }, (_, i) => i * step);
}

function colourBar(left, top, side, full) {
  const steps = 21;
  const each = side / steps;
  return svg("g", {},
    svg("rect", { class: "heat-room", x: left, y: top, width: 12, height: side }),
    Array.from({ length: steps }, (_, i) => {
      const value = 1 - (2 * i) / (steps - 1);
      return svg("rect", { class: value > 0 ? "positive" : "negative", x: left, y: top + i * each, width: 12, height: each + 0.3, "fill-opacity": Math.abs(value).toFixed(3) });
    }),
    [full, 0, -full].map((value) => svg("text", { class: "tick", x: left + 17, y: top + side * ((full - value) / (2 * full)) + (value > 0 ? 9 : value < 0 ? 0 : 4) }, measure(Math.round(value * 100) / 100))));
}
