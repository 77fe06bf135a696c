// A row as a card, with a picture where it has one, or as a line among others.

import { button, el, hidden } from "../shared/dom.js";
import { measure, shownId } from "../shared/words.js";
import { describe } from "./describe.js";
import { picture } from "./picture.js";

const FACTS = 4;

/** Return whether rows are best shown as pictures: half of them have one. */
export function arePictures(rows) {
  const some = rows.slice(0, 24);
  return some.filter((row) => describe(row.metadata).picture !== null).length * 2 > some.length;
}

/** Show a row as a card: a link that searches from there, and a button for all that it holds.
 *
 * `row` is {id, metadata, rank, distance}; rank and distance may be missing, `far` is the largest distance. */
export function card(row, { link, onDetails, far = 0, asPicture = false }) {
  const about = describe(row.metadata);
  const name = shownId(row.id);
  const facts = about.facts.slice(0, asPicture ? 1 : FACTS);
  const title = about.title ? el("span", { class: "title", dir: "auto" }, about.title.words) : null;
  const body = el(
    "a",
    { class: "card-link", href: link, draggable: "false" },
    hidden(row.rank === undefined ? "Search from " : `Number ${row.rank}, search from `),
    asPicture && (about.picture ? picture(about.picture) : el("span", { class: "picture none" }, el("span", { class: "soft small" }, "no picture"))),
    el("span", { class: "card-head" },
      row.rank !== undefined && el("span", { class: "rank", "aria-hidden": "true" }, String(row.rank)),
      el("span", { class: "id", title: name }, name),
      row.distance !== undefined && el("span", { class: "distance" }, hidden("distance "), measure(row.distance))),
    row.distance !== undefined && distanceBar(row.distance, far),
    !asPicture && about.picture && picture(about.picture),
    title,
    about.text && !(asPicture && title) && el("span", { class: "text", dir: "auto" }, about.text),
    (!asPicture || !title) && facts.length > 0 && el("span", { class: "facts-line" },
      facts.map(([key, value]) => el("span", { class: "fact" }, el("span", { class: "key" }, key), " ", el("span", { dir: "auto" }, value)))),
    !asPicture && about.facts.length === 0 && !title && !about.text && !about.picture && el("span", { class: "soft small" }, "no metadata"),
  );
  return el(
    "li",
    { class: asPicture ? "card pictured" : "card", "data-id": String(row.id) },
    body,
    button("⋯", () => onDetails(row.id), { class: "more", "aria-label": `Details of ${name}`, title: "All that this row holds (d)", tabindex: "-1" }),
  );
}

/** Show a row in one line: a small picture and a few words. */
export function line(row) {
  const about = describe(row.metadata);
  const words = about.title?.words ?? about.text ?? about.facts[0]?.join(" ") ?? "";
  return [
    about.picture ? picture(about.picture) : null,
    el("span", { class: "line-words" },
      el("span", { class: "id", title: shownId(row.id) }, shownId(row.id)),
      words !== "" && el("span", { class: "line-text", dir: "auto" }, words)),
  ];
}

function distanceBar(distance, far) {
  const bar = el("span", { class: "bar", "aria-hidden": "true" }, el("span"));
  const share = far > 0 ? Math.min(1, Math.max(0, Number(distance) / far)) : 0;
  bar.firstChild.style.width = `${share * 100}%`;
  return bar;
}
