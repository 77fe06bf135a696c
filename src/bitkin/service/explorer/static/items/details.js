// All that a row holds, in a box: its picture, metadata, vector and code.

import { isGivenUp } from "../shared/api.js";
import { button, el, refill, svg } from "../shared/dom.js";
import { stringify } from "../shared/json.js";
import { emptyState, failure, tell, waiting } from "../shared/messages.js";
import { go, linkTo } from "../shared/state.js";
import { counted, measure, shownId } from "../shared/words.js";
import { describe } from "./describe.js";
import { picture } from "./picture.js";

const SHORT = 600; // letters of a value that are shown at once
const SHORT_DATA = 60; // of a data URI, which nobody reads
const NUMBERS = 12; // of a vector
const MOST_BITS = 2048; // that are drawn

let box = null;

/** Open the box for one row. `stats` is what the collection says of itself. */
export async function openDetails(api, id, stats) {
  const close = () => box.close();
  box ??= document.body.appendChild(el("dialog", { class: "details", "aria-label": "All that a row holds" }));
  const content = el("div", { class: "details-body" }, waiting(3, "lines"));
  refill(
    box,
    el("header", { class: "dialog-head" },
      el("h2", {}, el("span", { class: "soft" }, "Row "), el("span", { class: "id-title" }, shownId(id))),
      button("Close", close, { class: "quiet" })),
    content,
  );
  box.onclick = (event) => {
    if (event.target === box) close(); // beside the box
  };
  if (!box.open) box.showModal();
  try {
    const { items } = await api.post("items/get", { ids: [id], vectors: true, codes: true });
    refill(content, itemParts(items[0], stats, close));
  } catch (error) {
    if (!isGivenUp(error)) refill(content, failure(error));
  }
}

function itemParts(item, stats, close) {
  const about = describe(item.metadata);
  const name = String(item.id);
  return [
    about.picture && el("div", { class: "large-picture" }, picture(about.picture, about.title?.words ?? `Picture of ${name}`)),
    el("div", { class: "row" },
      el("a", { class: "button strong", href: linkTo({ v: "search", by: "id", q: name, at: "0" }), on: { click: close } }, "Search from here"),
      copyButton("Copy id", name),
      item.vector !== undefined && item.vector !== null && copyButton("Copy vector", stringify(item.vector)),
      copyButton("Copy as JSON", stringify(item))),
    el("h3", {}, "Metadata"),
    metadataTable(item.metadata ?? {}),
    item.vector !== undefined && item.vector !== null && vectorPart(item.vector, close),
    item.code && codePart(item.code, stats),
  ];
}

function metadataTable(metadata) {
  const entries = Object.entries(metadata);
  if (entries.length === 0) return emptyState("Nothing is said of this row.");
  return el("dl", { class: "pairs" }, entries.map(([key, value]) => el("div", {}, el("dt", {}, key), el("dd", {}, longValue(value)))));
}

function longValue(value) {
  const isText = typeof value === "string";
  const text = isText ? value : pretty(value);
  const kind = isText ? "" : "code";
  const most = isText && text.startsWith("data:") ? SHORT_DATA : SHORT;
  if (text.length <= most) return el("span", { class: kind, dir: "auto" }, text);
  const shown = el("span", { class: kind, dir: "auto" }, `${text.slice(0, most)}…`);
  const more = button(`Show all ${counted(text.length, "letter")}`, () => {
    shown.textContent = text;
    more.remove();
  }, { class: "quiet small" });
  return [shown, " ", more];
}

function pretty(value) {
  const text = stringify(value);
  return text.length > 60 && /^[[{]/.test(text) && !/\d{16}/.test(text) ? JSON.stringify(value, null, 1) : text;
}

function vectorPart(vector, close) {
  const isSparse = !Array.isArray(vector);
  const values = isSparse ? vector.values : vector;
  const shown = isSparse
    ? vector.indices.slice(0, NUMBERS).map((at, i) => `${at}: ${measure(values[i])}`)
    : values.slice(0, NUMBERS).map(measure);
  const rest = values.length - shown.length;
  const length = Math.sqrt(values.reduce((sum, x) => sum + x * x, 0));
  return [
    el("h3", {}, "Vector"),
    el("p", { class: "code" }, shown.join("  "), rest > 0 && el("span", { class: "soft" }, `  and ${counted(rest, "more", "more")}`)),
    el("p", { class: "soft small" }, `${counted(values.length, isSparse ? "number that is not 0" : "number", isSparse ? "numbers that are not 0" : "numbers")}, length ${measure(length)}. `,
      button("Search by this vector", () => {
        close();
        go({ v: "search", by: "vector", q: stringify(vector), at: "0" });
      }, { class: "link" })),
  ];
}

function codePart(code, stats) {
  const bits = [...code].flatMap((digit) => [3, 2, 1, 0].map((at) => (parseInt(digit, 16) >> at) & 1));
  return [
    el("h3", {}, "Code"),
    bits.length <= MOST_BITS && drawBits(bits),
    el("p", { class: "code" }, code),
    el("p", { class: "soft small" }, `${stats.codes}, ${counted(code.length / 2, "byte")}, in hexadecimal.`),
  ];
}

function drawBits(bits) {
  const across = 64;
  const down = Math.ceil(bits.length / across);
  const ones = bits.reduce((sum, bit) => sum + bit, 0);
  return svg(
    "svg",
    { class: "bits", viewBox: `0 0 ${across} ${down}`, role: "img", "aria-label": `${bits.length} bits, ${ones} of them 1` },
    bits.map((bit, i) => svg("rect", { x: i % across + 0.06, y: Math.floor(i / across) + 0.06, width: 0.88, height: 0.88, class: bit ? "one" : "zero" })),
  );
}

/** A button that copies; where the browser does not let a page copy, there is none. */
export function copyButton(label, text) {
  if (!navigator.clipboard) return null;
  const made = button(label, async () => {
    try {
      await navigator.clipboard.writeText(text);
      made.textContent = "Copied";
      tell("Copied");
    } catch {
      made.textContent = "Not allowed to copy";
    }
    setTimeout(() => {
      made.textContent = label;
    }, 1500);
  }, { class: "quiet" });
  return made;
}
