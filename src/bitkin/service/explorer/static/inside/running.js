// How the service runs: how long searches take, and what it holds in memory.

import { el, svg } from "../shared/dom.js";
import { bytes, count, counted, duration } from "../shared/words.js";
import { figure, frame } from "../plots/figure.js";

const PERCENTILES = [["p50", "half of them"], ["p90", "90 %"], ["p99", "99 %"]];

/** Show the searches of late and their percentiles. */
export function latencyFigure(searches) {
  const recent = searches?.recent_ms ?? [];
  if (recent.length === 0) {
    return el("figure", {}, el("h3", {}, "Searches"), el("p", { class: "soft" }, "Nobody has searched yet. Search, and come back: the times of the last 500 are drawn here."));
  }
  const ms = (value) => duration(value / 1000);
  const [low, high] = [Math.max(0.01, Math.min(...recent)), Math.max(0.02, ...recent)];
  const label = `Time of the last ${recent.length} searches. ${PERCENTILES.map(([name, share]) => `${share} took at most ${ms(searches.ms[name])}`).join(", ")}.`;
  const draw = (width) => {
    const { drawing, body, x, y } = frame(width, 220, label, [0, recent.length], [low / 1.3, high * 1.3], {
      xName: recent.length === 1 ? "the last search" : `last ${count(recent.length)} searches, oldest first`, yName: "time (logarithmic)", logY: true, yFormat: ms, xTicks: [],
    });
    body.append(
      ...recent.map((value, i) => svg("circle", { class: "dot faint", cx: x.at(i + 0.5), cy: y.at(Math.max(low, value)), r: recent.length < 100 ? 3.5 : 2.2 })),
      ...PERCENTILES.map(([name]) => svg("line", { class: `percentile ${name}`, x1: x.start, x2: x.end, y1: y.at(searches.ms[name]), y2: y.at(searches.ms[name]) })),
    );
    return drawing;
  };
  return figure("Searches", [
    el("span", { class: "key-line" }, PERCENTILES.map(([name, share]) => el("span", {}, el("span", { class: `key-mark ${name}`, "aria-hidden": "true" }), `${share} within `, el("b", {}, ms(searches.ms[name]))))),
    ` ${counted(searches.count, "search", "searches")} since the start`,
    searches.batch_mean ? `, ${searches.batch_mean.toLocaleString("en-US", { maximumSignificantDigits: 2 })} at a time on average.` : ".",
  ], draw);
}

/** Show what the process holds, over time. */
export function memoryFigure(memory, stats) {
  const history = (memory?.history ?? []).filter(([, size]) => size > 0);
  const about = [
    el("b", {}, bytes(memory?.rss_bytes)),
    " held by the process; ",
    bytes(stats.bytes_in_memory),
    " by this collection",
    stats.bytes_on_disk ? `, ${bytes(stats.bytes_on_disk)} on disk.` : ".",
  ];
  if (history.length < 2) return el("figure", {}, el("h3", {}, "Memory"), el("p", {}, about), el("p", { class: "soft" }, "Its course is drawn after a few seconds."));
  const from = history[0][0];
  const until = history[history.length - 1][0];
  const most = Math.max(...history.map(([, size]) => size));
  const label = `Memory of the process over ${ago(until - from)}: ${bytes(history[0][1])} at first, ${bytes(history[history.length - 1][1])} now, ${bytes(most)} at most.`;
  const draw = (width) => {
    const { drawing, body, x, y } = frame(width, 220, label, [from, Math.max(until, from + 1)], [0, most * 1.15], {
      yName: "memory", yFormat: bytes, xFormat: (at) => ago(at - until), xTicks: [from, until], xName: "",
    });
    body.append(
      svg("path", { class: "area", d: `${path(history, x, y)} L${x.at(until)},${y.start} L${x.start},${y.start} Z` }),
      svg("path", { class: "line", d: path(history, x, y) }),
    );
    drawing.querySelectorAll(".tick[text-anchor=middle]").forEach((tick, i) => tick.setAttribute("text-anchor", i === 0 ? "start" : "end"));
    return drawing;
  };
  return figure("Memory", about, draw);
}

function path(history, x, y) {
  return history.map(([at, size], i) => `${i ? "L" : "M"}${x.at(at).toFixed(1)},${y.at(size).toFixed(1)}`).join(" ");
}

function ago(seconds) {
  const size = Math.abs(Math.round(seconds));
  if (size === 0) return "now";
  const words = size < 120 ? `${count(size)} s` : size < 7200 ? `${count(Math.round(size / 60))} min` : `${count(Math.round(size / 3600))} h`;
  return seconds < 0 ? `${words} ago` : words;
}
