// Pictures of rows.

import { el } from "../shared/dom.js";

const SMALL = 96; // pixels; smaller pictures are shown with their pixels

/** Show the picture at an address; a word in its place where it cannot be shown. */
export function picture(address, alt = "") {
  const frame = el("span", { class: "picture" });
  const image = el("img", { alt, loading: "lazy", decoding: "async", referrerpolicy: "no-referrer" });
  image.addEventListener("load", () => {
    frame.classList.toggle("pixels", image.naturalWidth > 0 && image.naturalWidth <= SMALL);
  });
  image.addEventListener("error", () => frame.replaceChildren(el("span", { class: "soft small" }, "no picture")));
  image.src = address;
  frame.append(image);
  return frame;
}
