// Plots: drawings that are made again when their room changes, with axes and words for those who cannot see them.

import { el, refill, svg } from "../shared/dom.js";

const MARGIN = { right: 14, top: 14, topWithName: 30, bottom: 34 };
const LETTER = 6.9; // pixels, of a label

/** Make a figure: `draw(width)` returns a drawing, `caption` says what it shows. */
export function figure(title, caption, draw, { wide = false } = {}) {
  const room = el("div", { class: "plot-room" });
  let width = 0;
  new ResizeObserver(() => {
    const now = Math.floor(room.clientWidth);
    if (now === width || now === 0) return;
    width = now;
    refill(room, draw(width));
  }).observe(room);
  return el("figure", { class: wide ? "wide" : "" }, el("h3", {}, title), room, el("figcaption", {}, caption));
}

/** A drawing with room for axes: {drawing, body, x, y} with scales over the domains given. */
export function frame(width, height, label, xDomain, yDomain, { xName = "", yName = "", logY = false, yTicks = null, xTicks = null, xFormat = String, yFormat = String } = {}) {
  const y = scale(yDomain, [height - MARGIN.bottom, yName ? MARGIN.topWithName : MARGIN.top], logY);
  const rows = yTicks ?? y.ticks(4);
  const left = 14 + LETTER * Math.max(1, ...rows.map((at) => yFormat(at).length));
  const x = scale(xDomain, [left, width - MARGIN.right]);
  const body = svg("g");
  const drawing = svg(
    "svg",
    { class: "plot", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label },
    rows.map((at) => [
      svg("line", { class: "grid-line", x1: x.start, x2: x.end, y1: y.at(at), y2: y.at(at) }),
      svg("text", { class: "tick", x: x.start - 7, y: y.at(at) + 4, "text-anchor": "end" }, yFormat(at)),
    ]),
    (xTicks ?? x.ticks(Math.max(2, Math.floor(width / 90)))).map((at) =>
      svg("text", { class: "tick", x: x.at(at), y: y.start + 17, "text-anchor": "middle" }, xFormat(at))),
    svg("line", { class: "axis", x1: x.start, x2: x.end, y1: y.start, y2: y.start }),
    xName && svg("text", { class: "tick", x: x.end, y: height - 3, "text-anchor": "end" }, xName),
    yName && svg("text", { class: "tick", x: 0, y: 12 }, yName),
    body,
  );
  return { drawing, body, x, y };
}

/** A scale from numbers to places. */
export function scale([low, high], [start, end], isLog = false) {
  const f = isLog ? Math.log10 : (v) => v;
  const [a, b] = [f(low), f(high)];
  const span = b - a || 1;
  return {
    start,
    end,
    at: (value) => start + ((f(value) - a) / span) * (end - start),
    ticks: (about) => (isLog ? logTicks(low, high) : niceTicks(low, high, about)),
  };
}

/** Numbers that people like to read, within a domain. */
export function niceTicks(low, high, about) {
  if (!(high > low)) return [low];
  const rough = (high - low) / Math.max(1, about);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((one) => one >= rough * 0.999);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i += 1) ticks.push(Number((i * step).toPrecision(12)));
  return ticks;
}

function logTicks(low, high) {
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
    for (const n of [1, 3]) {
      const tick = n * 10 ** power;
      if (tick >= low * 0.999 && tick <= high * 1.001) ticks.push(Number(tick.toPrecision(3)));
    }
  }
  return ticks.length > 1 ? ticks : niceTicks(low, high, 3);
}
