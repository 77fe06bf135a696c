// Rows that were found, or a page of all rows: as a grid of pictures, or as cards.

import { el } from "../shared/dom.js";
import { linkTo } from "../shared/state.js";
import { arePictures, card } from "../items/card.js";
import { moveAmong } from "./moving.js";

/** Show rows, each {id, metadata, and perhaps rank and distance}. */
export function resultList(rows, label, onDetails) {
  const asPicture = arePictures(rows);
  const far = Math.max(0, ...rows.map((row) => Number(row.distance ?? 0)));
  const list = el(
    "ol",
    { class: asPicture ? "results grid pictures" : "results grid", "aria-label": label, role: "list" },
    rows.map((row) => card(row, {
      link: linkTo({ v: "search", by: "id", q: String(row.id), at: "0" }),
      onDetails,
      far,
      asPicture,
    })),
  );
  moveAmong(list, ".card-link", (event, from) => {
    if (event.key === "d") from.parentElement.querySelector(".more").click();
  });
  return list;
}

/** Return the rows that an answer holds of its one query. */
export function rowsOf(answer) {
  const metadata = answer.metadata?.[0];
  return answer.ids[0].map((id, i) => ({ id, rank: i + 1, distance: answer.distances[0][i], metadata: metadata?.[i] ?? {} }));
}
