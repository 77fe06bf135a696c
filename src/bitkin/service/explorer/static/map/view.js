// The map: a sample of rows in two dimensions, from which to search.

import { isGivenUp } from "../shared/api.js";
import { afterPause, button, el, refill, select } from "../shared/dom.js";
import { emptyState, failure, tell, waiting } from "../shared/messages.js";
import { go, linkTo } from "../shared/state.js";
import { counted, percent } from "../shared/words.js";
import { card } from "../items/card.js";
import { describe } from "../items/describe.js";
import { openDetails } from "../items/details.js";
import { readFilter } from "../search/query.js";
import { colouring } from "./colours.js";
import { mapDrawing } from "./drawing.js";

const SIZES = ["300", "1000", "3000", "5000"];

/** Return {show, leave}: the map of one collection. */
export function mapView(section, { api, stats, known, lastIds }) {
  const options = el("div", { class: "row options-row" });
  const about = el("p", { class: "soft small map-about" });
  const legend = el("div", { class: "map-legend" });
  const pointed = el("div", { class: "pointed", "aria-live": "polite" });
  const drawing = mapDrawing({ onPoint: showPointed, onChoose: choose });
  const zooms = el("div", { class: "zooms" },
    button("+", () => drawing.zoom(1.5), { class: "quiet", "aria-label": "Larger", title: "Larger (+)" }),
    button("−", () => drawing.zoom(1 / 1.5), { class: "quiet", "aria-label": "Smaller", title: "Smaller (−)" }),
    button("⤢", () => drawing.zoom(1e-3), { class: "quiet", "aria-label": "All of it", title: "All of it (0)" }));
  const board = el("div", { class: "map-board" }, drawing.element, zooms);
  const message = el("div");
  const rows = new Map(); // that were pointed at
  let asking = new AbortController();
  let shown = ""; // what the map shows
  let fields = [];
  let now = null; // the point that is meant

  refill(
    section,
    el("div", { class: "headline-row" }, el("h2", {}, "Map"), about),
    options,
    message,
    el("div", { class: "map-parts" }, board, el("aside", { class: "map-side", "aria-label": "What is pointed at" }, legend, pointed)),
  );

  board.parentElement.hidden = true;

  async function show(state) {
    const key = JSON.stringify([state.field, state.map, state.n, state.where]);
    drawOptions(state);
    asking.abort(); // what was asked for before is no longer wanted
    if (key === shown) {
      section.setAttribute("aria-busy", "false");
      return drawing.highlight(lastIds());
    }
    asking = new AbortController();
    const { signal } = asking;
    section.setAttribute("aria-busy", "true");
    const slow = setTimeout(() => shown === "" && refill(message, waiting(1, "board")), 300);
    try {
      readFilter(state); // says what is wrong with it
      const drawn = await api.get("map", { n: state.n, field: fieldOf(state), by: state.map, where: state.where }, signal);
      shown = key;
      fields = drawn.fields;
      refill(message);
      // without a choice it is coloured by the first field there is
      if (state.field === "" && !drawn.field && fields.length > 0) return go({ field: fields[0] }, { replace: true });
      draw(drawn, state);
    } catch (error) {
      if (isGivenUp(error)) return;
      shown = "";
      board.parentElement.hidden = true;
      refill(message, failure(error, () => show(state)));
    } finally {
      clearTimeout(slow);
      if (!signal.aborted) section.setAttribute("aria-busy", "false");
    }
  }

  function draw(drawn, state) {
    const n = drawn.points.length;
    board.parentElement.hidden = n === 0;
    drawOptions(state);
    if (n === 0) {
      about.textContent = "";
      return refill(message, state.where === ""
        ? emptyState("There are no rows to draw.", "The map shows rows once the collection has some.")
        : emptyState("No row matches the filter.", button("Clear the filter", () => go({ where: "" }), { class: "quiet" })));
    }
    const kept = drawn.kept === null ? "all rows are alike" : `${percent(drawn.kept)} of the variance kept`;
    about.textContent = `${counted(n, "row")}${n < stats.rows ? ` of ${counted(stats.rows, "row").replace(/ rows?$/, "")}` : ""}, ${drawn.method}, ${kept}${state.where === "" ? "" : ", filtered"}`;
    const colours = colouring(drawn.points, drawn.field ?? "");
    drawing.draw(drawn.points, colours, `Map of ${counted(n, "row")}${drawn.field ? `, coloured by ${drawn.field}` : ""}. Arrow keys go from row to row, Enter searches from there.`);
    drawing.highlight(lastIds());
    refill(legend, drawn.field && el("h3", {}, drawn.field), colours.legend(toggle));
    showPointed(null);
    tell(`Map of ${counted(n, "row")}.`);
    return null;
  }

  function toggle(pressed, group) {
    const wasOn = pressed.getAttribute("aria-pressed") === "true";
    legend.querySelectorAll("[aria-pressed]").forEach((one) => one.setAttribute("aria-pressed", "false"));
    pressed.setAttribute("aria-pressed", String(!wasOn));
    drawing.dim(wasOn ? null : group);
  }

  function drawOptions(state) {
    const named = [...new Set([...fields, ...(state.field && state.field !== "-" ? [state.field] : [])])];
    const option = (label, box) => el("span", { class: "option" }, el("label", { for: box.id }, label), box);
    const change = (name) => (value) => go({ [name]: value }, { replace: true });
    refill(
      options,
      option("Coloured by", select([...named.map((name) => [name, name]), ["-", "nothing"]], state.field === "" ? "-" : state.field, change("field"), { id: "map-field" })),
      stats.vectors !== null && option("Laid out by", select([["vectors", "vectors"], ["codes", "codes"]], state.map, change("map"), { id: "map-by" })),
      option("Rows", select([...new Set([...SIZES, state.n])].map((n) => [n, n]), state.n, change("n"), { id: "map-n" })),
      state.where !== "" && el("span", { class: "option" }, el("span", { class: "pill" }, "filtered"), button("Clear", () => go({ where: "" }, { replace: true }), { class: "quiet small" })),
    );
  }

  function showPointed(point) {
    now = point;
    if (point === null) {
      return refill(pointed, el("p", { class: "soft small" }, matchMedia("(pointer: coarse)").matches
        ? "Tap a row to see it, and once more to search from there. Make it larger by +, and drag it then."
        : "Point at a row to see it, and press it to search from there. Keys: arrows, Enter, + and −. The wheel with Ctrl makes it larger; drag it then."));
    }
    if (rows.has(String(point.id))) return drawPointed(rows.get(String(point.id)));
    return fetchPointed(point);
  }

  const fetchPointed = afterPause(90, async (point) => {
    if (point !== now) return;
    try {
      const { items } = await api.post("items/get", { ids: [point.id] });
      rows.set(String(point.id), items[0]);
      if (point === now) drawPointed(items[0]);
    } catch (error) {
      if (point === now) refill(pointed, failure(error));
    }
  });

  function drawPointed(item) {
    known.learn([item.metadata]);
    const asPicture = describe(item.metadata).picture !== null;
    refill(pointed, el("ol", { class: asPicture ? "grid pictures one" : "grid one", role: "list" },
      [card(item, { link: linkTo({ v: "search", by: "id", q: String(item.id), at: "0" }), onDetails: (id) => openDetails(api, id, stats), asPicture })]));
  }

  function choose(point) {
    go({ v: "search", by: "id", q: String(point.id), at: "0" });
  }

  return { show, leave: () => asking.abort() };
}

function fieldOf(state) {
  return state.field === "-" ? "" : state.field;
}
