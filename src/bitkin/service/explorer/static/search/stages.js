// The same query at every stage of the funnel, side by side: what each found, missed, and in which order.

import { Problem } from "../shared/api.js";
import { el, hidden, refill, svg } from "../shared/dom.js";
import { emptyState } from "../shared/messages.js";
import { linkTo } from "../shared/state.js";
import { count, duration, measure } from "../shared/words.js";
import { line } from "../items/card.js";
import { moveAmong } from "./moving.js";
import { rowsOf } from "./results.js";

const STAGES = ["codes", "estimate", "exact"];
const MOST_MEASURED = 50_000; // rows that are measured for a comparison
const SAYS = {
  codes: "symbols that differ",
  estimate: "the distance, estimated from codes",
  exact: "the distance, of the best so far",
  all: "the distance, of every row",
};
const NAMES = { codes: "codes", estimate: "estimate", exact: "exact", all: "all rows" };

/** Return whether every row of a collection may be measured. */
export function canMeasureAll(stats) {
  return stats.vectors !== null && stats.rows > 0 && stats.rows <= MOST_MEASURED;
}

/** Ask for every stage and show them; `measureAll` adds a column of the truth. */
export async function compareStages(api, body, stats, measureAll, signal) {
  const asked = possibleStages(stats, body).map((stage) => ({ name: stage, body: { ...body, stage } }));
  if (measureAll) {
    // enough for the first stage to keep every row, so that all are measured
    asked.push({ name: "all", body: { ...body, stage: "exact", oversample: Math.ceil(stats.rows / body.k) } });
  }
  const columns = [];
  const refused = [];
  for (const { name, body: one } of asked) {
    // one after the other: each is timed alone
    try {
      // the first search after a pause is slower, whatever its stage: it is asked for again
      if (columns.length === 0) await api.post("explain", one, signal);
      const answer = await api.post("explain", one, signal);
      columns.push({ name, rows: rowsOf(answer), explain: answer.explain });
    } catch (error) {
      if (!(error instanceof Problem) || ![409, 422, 503].includes(error.status)) throw error;
      refused.push({ name, error });
    }
  }
  if (columns.length === 0) throw refused[0].error;
  return draw(columns, refused, stats);
}

/** The stages to ask for: those that the collection says it can do, or all that may be. */
function possibleStages(stats, body) {
  if (body.codes) return ["codes"];
  return STAGES.filter((stage) => stats.stages?.includes(stage) ?? (stage !== "exact" || stats.vectors !== null));
}

function draw(columns, refused, stats) {
  const truth = columns[columns.length - 1];
  if (truth.rows.length === 0) {
    return emptyState("No stage finds a row.", "No row matches the filter, or the collection has none.");
  }
  const places = new Map(truth.rows.map((row, i) => [String(row.id), i + 1]));
  const judged = columns.map((column) => judge(column, truth, places));
  const ties = svg("svg", { class: "ties", "aria-hidden": "true" });
  const board = el("div", { class: `stage-board of-${columns.length}` }, ties, judged.map((column) => drawColumn(column, truth, judged, stats)));
  const scroll = el("div", { class: "stage-scroll", role: "region", "aria-label": "Stages side by side", tabindex: "0" }, board);
  moveAmong(board, ".stage-link");
  lightSame(board);
  new ResizeObserver(() => drawTies(board, ties)).observe(board);
  return [
    summary(judged, truth),
    scroll,
    refused.length > 0 && el("div", { class: "small soft" }, refused.map(({ name, error }) => el("p", {}, el("b", {}, NAMES[name]), `: ${error.message}`))),
  ];
}

/** Compare what a column found with the truth. */
function judge(column, truth, places) {
  const found = new Set(column.rows.map((row) => String(row.id)));
  const missed = truth.rows.map((row, i) => ({ ...row, place: i + 1 })).filter((row) => !found.has(String(row.id)));
  const moved = column.rows.filter((row) => places.has(String(row.id)) && places.get(String(row.id)) !== row.rank).length;
  return { ...column, places, missed, moved, nFound: truth.rows.length - missed.length };
}

function summary(judged, truth) {
  const others = judged.filter((column) => column.name !== truth.name);
  if (others.length === 0) {
    return el("p", { class: "stage-summary" }, `Only “${truth.name}” is possible here: there is nothing to compare it with.`);
  }
  const told = others.map((column, i) => {
    const subject = { codes: "codes find", estimate: "the estimate finds", exact: "the exact stage finds" }[column.name];
    const found = `${i === 0 ? capital(subject) : subject} ${count(column.nFound)}`;
    const order = column.missed.length > 0 ? "" : column.moved > 0 ? ", in another order" : ", in the same order";
    return `${found}${i === 0 ? ` of the ${count(truth.rows.length)} nearest` : ""}${order}`;
  });
  const by = { all: "as all rows measured have them", exact: "as the exact stage has them", estimate: "as the estimate has them" }[truth.name];
  return el("p", { class: "stage-summary" }, el("b", {}, `${told.join("; ")}.`), el("span", { class: "soft" }, ` Nearest ${by}; #n is the place there, ✕ what lost it.`));
}

function drawColumn(column, truth, judged, stats) {
  const isTruth = column.name === truth.name;
  const says = column.name === "estimate" && stats.hasher.startsWith("WTAHash") ? "what the query loses" : SAYS[column.name];
  const share = column.nFound / truth.rows.length;
  const seconds = Object.values(column.explain.stages).reduce((sum, one) => sum + one.seconds, 0);
  return el(
    "section",
    { class: isTruth ? "stage truth" : "stage", "data-stage": column.name, "aria-label": `Stage ${NAMES[column.name]}` },
    el("header", {},
      el("h3", {}, NAMES[column.name]),
      el("p", { class: "soft small" }, says),
      el("p", { class: "figures-line" },
        isTruth
          ? el("span", { class: "recall" }, judged.length > 1 ? "the reference" : `${count(truth.rows.length)} rows`)
          : el("span", { class: share === 1 ? "recall good" : "recall" }, el("b", {}, measure(Math.round(share * 1000) / 1000)), ` recall, ${count(column.nFound)} of ${count(truth.rows.length)}`),
        el("span", { class: "took" }, duration(seconds))),
      pipeline(column.explain, seconds)),
    el("ol", { class: "stage-rows", role: "list", "aria-label": `Found by ${NAMES[column.name]}` },
      column.rows.map((row) => drawRow(row, markOf(row, column, truth, judged)))),
    column.missed.length > 0 && el("div", { class: "missed" },
      el("h4", {}, `Missed ${count(column.missed.length)}`, el("span", { class: "soft" }, ` (distances of “${NAMES[truth.name]}”)`)),
      el("ol", { class: "stage-rows", role: "list", "aria-label": `Missed by ${NAMES[column.name]}` },
        column.missed.map((row) => drawRow({ ...row, rank: null }, { kind: "lost", text: `#${row.place}`, says: `missed; number ${row.place} in truth` })))),
  );
}

function markOf(row, column, truth, judged) {
  const name = String(row.id);
  if (column.name === truth.name) {
    const lost = judged.filter((one) => one.missed.some((other) => String(other.id) === name)).map((one) => NAMES[one.name]);
    return lost.length > 0
      ? { kind: "lost-there", text: "", lost, says: `lost by ${lost.join(" and ")}` }
      : { kind: "kept", text: "", says: "found by every stage" };
  }
  const place = column.places.get(name);
  if (place === undefined) return { kind: "extra", text: "not near", says: `not among the ${truth.rows.length} nearest` };
  return place === row.rank
    ? { kind: "same", text: `#${place}`, says: "in its place" }
    : { kind: "moved", text: `#${place}`, says: `number ${place} in truth` };
}

function drawRow(row, mark) {
  return el(
    "li",
    { class: `stage-row ${mark.kind}`, "data-id": String(row.id), "data-rank": row.rank === null ? "missed" : row.rank },
    el("a", { class: "stage-link", href: linkTo({ by: "id", q: String(row.id), at: "0" }), draggable: "false" },
      el("span", { class: "rank" }, row.rank === null ? "" : String(row.rank)),
      line(row),
      el("span", { class: "line-end" },
        el("span", { class: "distance" }, hidden("distance "), measure(row.distance)),
        mark.text !== "" && el("span", { class: "mark", "aria-hidden": "true" }, mark.text),
        mark.lost && el("span", { class: "badge", "aria-hidden": "true" }, mark.lost.map((name) => el("span", {}, `✕ ${name} `))),
        hidden(mark.says))),
  );
}

/** A bar of what the time went into, and every step in words. */
function pipeline(explain, seconds) {
  const steps = Object.entries(explain.stages);
  return el(
    "details",
    { class: "pipeline" },
    el("summary", {},
      hidden("Where the time went"),
      el("span", { class: "pipeline-bar", "aria-hidden": "true" }, steps.map(([name, one]) => {
        const part = el("span", { class: `part ${kindOfStep(name)}` });
        part.style.flexGrow = String(seconds > 0 ? Math.max(one.seconds / seconds, 0.02) : 1);
        return part;
      })),
      el("span", { class: "caret", "aria-hidden": "true" }, "▾")),
    el("table", {},
      el("thead", {}, el("tr", {}, ["step", "time", "rows in", "out"].map((word) => el("th", { scope: "col" }, word)))),
      el("tbody", {}, steps.map(([name, one]) => el("tr", {},
        el("th", { scope: "row" }, el("span", { class: `swatch ${kindOfStep(name)}`, "aria-hidden": "true" }), name),
        el("td", {}, duration(one.seconds)),
        el("td", {}, count(one.rows_in)),
        el("td", {}, count(one.rows_out)))))),
    el("p", { class: "small soft" }, `${explain.index}; ${explain.first} first: ${explain.why}.`),
  );
}

/** The colour of a step: the same one in every column. */
function kindOfStep(name) {
  return name === "encode" ? "p0" : name.startsWith("estimate") ? "p2" : name === "exact" ? "p3" : "p1";
}

/** Let the same row light up in every column, under the pointer or the focus. */
function lightSame(board) {
  const light = (event) => {
    const id = event.target.closest?.("[data-id]")?.dataset.id;
    for (const one of board.querySelectorAll("[data-id]")) one.classList.toggle("lit", one.dataset.id === id);
  };
  const dark = () => board.querySelectorAll(".lit").forEach((one) => one.classList.remove("lit"));
  board.addEventListener("pointerover", light);
  board.addEventListener("focusin", light);
  board.addEventListener("pointerleave", dark);
  board.addEventListener("focusout", dark);
}

/** Draw a line from every row to the same row in the next column. */
function drawTies(board, ties) {
  const origin = board.getBoundingClientRect();
  const columns = [...board.querySelectorAll(".stage")];
  ties.setAttribute("width", String(board.scrollWidth));
  ties.setAttribute("height", String(board.scrollHeight));
  const paths = [];
  for (let i = 0; i + 1 < columns.length; i += 1) {
    const there = new Map([...columns[i + 1].querySelectorAll("[data-id]")].map((row) => [row.dataset.id, row]));
    for (const row of columns[i].querySelectorAll("[data-id]")) {
      const other = there.get(row.dataset.id);
      if (other) paths.push(tie(row, other, origin));
    }
  }
  refill(ties, paths);
}

function tie(row, other, origin) {
  const [a, b] = [row.getBoundingClientRect(), other.getBoundingClientRect()];
  const [x1, y1] = [a.right - origin.left, (a.top + a.bottom) / 2 - origin.top];
  const [x2, y2] = [b.left - origin.left, (b.top + b.bottom) / 2 - origin.top];
  const bend = (x2 - x1) / 2;
  const wasMissed = row.dataset.rank === "missed" || other.dataset.rank === "missed";
  const kind = wasMissed ? "tie lost" : row.dataset.rank === other.dataset.rank ? "tie" : "tie moved";
  return svg("path", { class: kind, "data-id": row.dataset.id, d: `M${x1},${y1} C${x1 + bend},${y1} ${x2 - bend},${y2} ${x2},${y2}` });
}

function capital(word) {
  return word[0].toUpperCase() + word.slice(1);
}

