// The box that asks for a token. It is kept for this tab alone, and sent to this service alone.

import { button, el, refill } from "./dom.js";

let box = null;

/** Ask for a token; null where the person has none. `refused` is whether the last one was not taken. */
export function askToken(refused) {
  return new Promise((resolve) => {
    const input = el("input", {
      type: "password", id: "token", autocomplete: "off", spellcheck: "false", required: true,
      "aria-describedby": "token-why", on: { input: () => input.setCustomValidity("") },
    });
    const form = el(
      "form",
      { on: { submit: (event) => {
        event.preventDefault();
        const token = input.value.trim();
        const writable = /^[\x21-\x7e]+$/.test(token); // what a header can hold
        input.setCustomValidity(writable ? "" : "A token has letters, digits and signs, without spaces.");
        if (input.reportValidity()) answer(token);
      } } },
      el("h2", { id: "token-title" }, "A token, please"),
      el("p", { id: "token-why", class: refused ? "bad" : "soft", role: refused ? "alert" : null },
        refused ? "That token was refused. Is it whole, and one of this service?" : "This service answers those who have a token. It was shown, or given a file, when the service was started."),
      el("label", { for: "token" }, "Token"),
      input,
      el("p", { class: "soft small" }, "Kept in this tab until it is closed, and sent to this service alone."),
      el("div", { class: "row end" },
        button("Not now", () => answer(null), { class: "quiet" }),
        el("button", { type: "submit", class: "strong" }, "Continue")),
    );
    box ??= document.body.appendChild(el("dialog", { class: "narrow", "aria-labelledby": "token-title" }));
    refill(box, form);
    box.oncancel = () => resolve(null);
    if (!box.open) box.showModal();
    input.focus();

    function answer(token) {
      box.close();
      resolve(token);
    }
  });
}
