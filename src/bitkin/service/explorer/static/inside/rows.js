// What rows are and how the hasher stands: epochs, and how far what was learned has moved away.

import { el, svg } from "../shared/dom.js";
import { count, counted, measure, percent } from "../shared/words.js";
import { figure } from "../plots/figure.js";

/** Show how many rows each epoch has. */
export function epochsFigure(epochs) {
  const most = Math.max(1, ...epochs.map((one) => one.rows));
  const total = epochs.reduce((sum, one) => sum + one.rows, 0);
  const label = epochs.map((one) => `Epoch ${one.number}: ${counted(one.rows, "row")}`).join(". ");
  const draw = (width) => {
    const [left, each] = [78, 30];
    const room = width - left - 92;
    return svg("svg", { class: "plot", viewBox: `0 0 ${width} ${epochs.length * each + 4}`, width, height: epochs.length * each + 4, role: "img", "aria-label": label },
      epochs.map((one, i) => [
        svg("text", { class: "tick", x: left - 8, y: i * each + 20, "text-anchor": "end" }, `epoch ${one.number}`),
        svg("rect", { class: i === 0 ? "bar-now" : "bar-before", x: left, y: i * each + 5, width: Math.max(2, (one.rows / most) * room), height: each - 10, rx: 3 }),
        svg("text", { class: "value", x: left + Math.max(2, (one.rows / most) * room) + 7, y: i * each + 20 }, count(one.rows)),
      ]));
  };
  const about = epochs.length === 1
    ? "All rows have codes of the current hasher."
    : `${percent(1 - epochs[0].rows / Math.max(1, total))} of the rows have codes of earlier hashers. They are found too, and codes of different epochs do not compare. To bring all to the current one: POST v1/reencode, or bitkin.Client(url).reencode().`;
  return figure("Epochs", [about, el("span", { class: "block soft code" }, `${epochs[0].fingerprint.slice(0, 16)}…`, " is the current hasher")], draw);
}

const DRIFTS = [
  ["variance_kept", "variance kept", "of what current directions capture of recent vectors, the model that encodes captures this much; below 95 % a new epoch pays", (x) => x >= 0.95],
  ["variance_captured", "variance captured", "of all there is in recent vectors", () => null],
  ["bits_flipped", "bits flipped", "of recent codes would differ; half is what unrelated models have", () => null],
  ["mean_shift", "mean shift", "how far the mean has moved, squared, in units of the variance", (x) => x <= 0.05],
];

/** Show how far the model that learns is from the one that encodes. */
export function driftFigure(drift) {
  const rows = DRIFTS.filter(([name]) => typeof drift[name] === "number");
  const label = rows.map(([name, words]) => `${words}: ${percent(drift[name])}`).join(". ");
  const draw = (width) => {
    const [left, each] = [128, 30];
    const room = Math.max(40, width - left - 70);
    return svg("svg", { class: "plot", viewBox: `0 0 ${width} ${rows.length * each + 4}`, width, height: rows.length * each + 4, role: "img", "aria-label": label },
      rows.map(([name, words, , isGood], i) => {
        const value = drift[name];
        const good = isGood(value);
        return [
          svg("text", { class: "tick", x: left - 8, y: i * each + 20, "text-anchor": "end" }, words),
          svg("rect", { class: "bar-room", x: left, y: i * each + 8, width: room, height: each - 16, rx: 3 }),
          svg("rect", { class: good === null ? "bar-now" : good ? "bar-good" : "bar-bad", x: left, y: i * each + 8, width: Math.max(2, Math.min(1, value) * room), height: each - 16, rx: 3 }),
          svg("text", { class: "value", x: left + room + 7, y: i * each + 20 }, percent(value)),
        ];
      }));
  };
  return figure("Drift", [
    `After ${counted(drift.n_vectors, "vector")} learned from. Bits spread by ${measure(drift.diagonal_spread)}. `,
    el("details", {}, el("summary", {}, "What these say"), el("dl", { class: "plain" }, rows.map(([, words, says]) => el("div", {}, el("dt", {}, words), el("dd", {}, says))))),
  ], draw);
}

/** Say why nothing drifts. */
export function noDrift(problem = null) {
  return el("figure", {}, el("h3", {}, "Drift"),
    el("p", { class: "soft" }, "Nothing can drift here: the hasher does not go on learning."),
    problem && el("p", { class: "soft small" }, problem.message));
}
