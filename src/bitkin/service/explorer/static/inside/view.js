// What is inside: what the collection is, how its codes are used, and how the service runs.

import { isGivenUp, Problem } from "../shared/api.js";
import { button, el, refill } from "../shared/dom.js";
import { failure, tell, waiting } from "../shared/messages.js";
import { bytes, count, counted } from "../shared/words.js";
import { bitFigures } from "./bits.js";
import { driftFigure, epochsFigure, noDrift } from "./rows.js";
import { latencyFigure, memoryFigure } from "./running.js";

const EVERY = 5000; // milliseconds between looks at what runs

/** Return {show, leave}: the panel of one collection. */
export function insideView(section, { api }) {
  const message = el("div");
  const facts = el("div");
  const codes = el("div", { class: "figures" }, waiting(2, "plots"));
  const rows = el("div", { class: "figures" });
  const running = el("div", { class: "figures" });
  const parts = el("div", {},
    facts,
    el("h3", { class: "part-title" }, "Codes"), codes,
    el("h3", { class: "part-title" }, "Rows and hasher"), rows,
    el("h3", { class: "part-title" }, "The service"), running);
  const follow = el("input", { type: "checkbox", id: "follow" });
  let asking = new AbortController();
  let timer = 0;

  follow.addEventListener("change", () => (follow.checked ? lookAgain() : clearTimeout(timer)));
  refill(
    section,
    el("div", { class: "headline-row" },
      el("h2", {}, "Inside"),
      el("span", { class: "row end" },
        el("span", { class: "option" }, follow, el("label", { for: "follow" }, "Follow searches and memory")),
        button("Look again", () => look(true), { class: "quiet" }))),
    message,
    parts,
  );

  async function look(everything) {
    asking.abort();
    asking = new AbortController();
    const { signal } = asking;
    section.setAttribute("aria-busy", "true");
    try {
      const stats = await api.get("stats", {}, signal);
      refill(message);
      parts.hidden = false;
      refill(facts, factList(stats));
      refill(running, latencyFigure(stats.searches), memoryFigure(stats.memory, stats));
      if (everything) {
        const [bits, epochs, drift] = await Promise.all([api.get("bits", {}, signal), api.get("epochs", {}, signal), driftPart(stats, signal)]);
        refill(codes, bitFigures(bits));
        refill(rows, epochsFigure(epochs.epochs), drift);
        tell(`Inside ${stats.name}: ${counted(stats.rows, "row")}.`);
      }
    } catch (error) {
      if (isGivenUp(error)) return;
      // what was there before stays, as it was then
      parts.hidden = rows.childElementCount === 0;
      refill(message, failure(error, () => look(true)));
    } finally {
      if (!signal.aborted) section.setAttribute("aria-busy", "false");
    }
  }

  async function driftPart(stats, signal) {
    if (stats.learns === false) return noDrift();
    try {
      return driftFigure(await api.get("drift", {}, signal));
    } catch (error) {
      if (error instanceof Problem && error.status !== 401 && error.status < 500 && error.status > 0) return noDrift(error);
      throw error;
    }
  }

  function lookAgain() {
    clearTimeout(timer);
    timer = setTimeout(async () => {
      if (!document.hidden) await look(false);
      if (follow.checked && !section.hidden) lookAgain();
    }, EVERY);
  }

  return {
    async show() {
      if (follow.checked) lookAgain();
      await look(true);
    },
    leave() {
      asking.abort();
      clearTimeout(timer);
    },
  };
}

function factList(stats) {
  const numbers = stats.n_features ? ` of ${count(stats.n_features)} numbers` : "";
  const pairs = [
    ["rows", count(stats.rows)],
    ["codes", `${stats.codes}, ${counted(stats.bytes_per_code, "byte")} each`],
    ["vectors", stats.vectors === null ? "not kept" : `${stats.vectors}${numbers}`],
    ["metric", stats.metric],
    ["last stage", stats.stage],
    ["index", stats.index],
    ["ids", stats.ids === "int" ? "whole numbers" : "texts"],
    ["texts embedded by", stats.embed ?? "–"],
    ["declared fields", Object.entries(stats.fields ?? {}).map(([name, type]) => `${name}: ${type}`).join(", ") || "none"],
    ["in memory", bytes(stats.bytes_in_memory)],
    ["on disk", stats.bytes_on_disk === null ? "–" : bytes(stats.bytes_on_disk)],
    ["hasher", stats.hasher],
  ];
  return el("dl", { class: "facts" }, pairs.map(([name, value]) => el("div", { class: name === "hasher" ? "long" : "" }, el("dt", {}, name), el("dd", { class: name === "hasher" ? "code" : "" }, value))));
}
