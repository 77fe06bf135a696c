// What is said in the place of rows: that there are none, what went wrong, that they are on their way.

import { button, el } from "./dom.js";

const PATIENCE = 3000; // milliseconds

/** Say that there is nothing to show, and what to do. */
export function emptyState(title, ...advice) {
  return el("div", { class: "empty" }, el("h3", {}, title), advice.map((one) => (typeof one === "string" ? el("p", {}, one) : one)));
}

/** Say what went wrong, in the words of the service, with a way to try again where that may help. */
export function failure(problem, retry = null) {
  const wait = problem.retryAfter ? ` Wait ${problem.retryAfter} s.` : "";
  return el(
    "div",
    { class: "notice bad", role: "alert" },
    el("p", {}, `${problem.message}${wait}`),
    retry && mayPass(problem) && button("Try again", retry, { class: "quiet" }),
  );
}

/** Return whether the same may succeed later: not what was written wrongly, which is no answer or a 422. */
function mayPass(problem) {
  return problem.status !== undefined && problem.status !== 422;
}

/** Boxes where rows will be. */
export function waiting(n, kind = "cards") {
  const boxes = Array.from({ length: n }, () => el("div", { class: "ghost" }));
  return el("div", { class: `ghosts ${kind}`, "aria-hidden": "true" }, boxes);
}

/** Words for those who wait longer than searches take. */
export function patience() {
  const words = el("p", { class: "soft small patience", hidden: true }, "Still on its way. The first search after an installation compiles what it needs, which takes up to a minute.");
  setTimeout(() => {
    words.hidden = false;
    if (words.isConnected) tell(words.textContent);
  }, PATIENCE);
  return words;
}

/** Say something to those who hear the page. */
export function tell(text) {
  document.getElementById("told").textContent = text;
}
