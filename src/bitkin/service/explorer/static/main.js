// The page: which collection and which view it shows, and what holds everywhere.

import { collectionApi, forgetToken, hasToken, isGivenUp, prepare, service } from "./shared/api.js";
import { button, el, refill, select } from "./shared/dom.js";
import { emptyState, failure } from "./shared/messages.js";
import { current, go, linkTo, onChange } from "./shared/state.js";
import { askToken } from "./shared/token.js";
import { count, counted } from "./shared/words.js";
import { KnownFields } from "./filter/values.js";
import { insideView } from "./inside/view.js";
import { mapView } from "./map/view.js";
import { searchView } from "./search/view.js";

const VIEWS = { search: "Search", map: "Map", inside: "Inside" };
const THEMES = { "": "as the system", light: "light", dark: "dark" };

const at = (id) => document.getElementById(id);
let about = null; // the service
let collections = []; // what is said of each
let shown = 0; // states so far
let opened = null; // {name, stats, views} of the collection that is shown

prepare({
  ask: askToken,
  busy: (n) => { at("busy").hidden = n === 0; },
});
onChange(show);
addEventListener("keydown", onKey);
drawTools();
start();

async function start() {
  refill(at("notice"));
  try {
    [about, { collections }] = [await service.about(), await service.collections()];
  } catch (error) {
    if (!isGivenUp(error)) refill(at("notice"), failure(error, start));
    at("main").setAttribute("aria-busy", "false");
    return;
  }
  drawTools();
  show();
}

/** Show what the address says; the main part is busy until all of it is there. */
async function show() {
  if (about === null) return;
  shown += 1;
  const mine = shown;
  at("main").setAttribute("aria-busy", "true");
  try {
    await showState(current(), () => mine === shown);
  } finally {
    if (mine === shown) at("main").setAttribute("aria-busy", "false");
  }
}

async function showState(state, isWanted) {
  const name = state.c || (collections.length > 0 ? collections[0].name : "");
  drawTop(state, name);
  if (name === "") {
    hideViews();
    refill(at("notice"), emptyState("No collection is served yet.", "Make one with the write token: POST v1/collections, or bitkin.Client(url).create(...)."), button("Look again", start, { class: "quiet" }));
    return;
  }
  if (opened?.name !== name && !(await open(name, isWanted))) return;
  const view = viewOf(state);
  // whoever pressed a row in one view goes on among the rows of the other
  const wasWithin = at("main").contains(document.activeElement);
  for (const one of Object.keys(VIEWS)) {
    const section = at(`view-${one}`);
    if (one !== view && !section.hidden) opened.views[one].leave();
    section.hidden = one !== view;
  }
  const takeFocus = wasWithin && !at(`view-${view}`).contains(document.activeElement);
  refill(at("notice"));
  document.title = title(state, name, view);
  await opened.views[view].show({ ...state, c: name }, takeFocus);
}

function viewOf(state) {
  return Object.hasOwn(VIEWS, state.v) ? state.v : "search";
}

/** Learn of a collection and make its views, unless something else is wanted by then. */
async function open(name, isWanted) {
  const api = collectionApi(name);
  let stats;
  try {
    stats = await api.get("stats");
  } catch (error) {
    if (!isWanted()) return false;
    opened = null;
    hideViews();
    refill(at("notice"), failure(error, show));
    return false;
  }
  if (!isWanted()) return false;
  if (opened) Object.values(opened.views).forEach((view) => view.leave());
  const known = new KnownFields(stats.fields ?? {});
  const search = searchView(at("view-search"), { api, stats, known });
  opened = {
    name,
    stats,
    views: {
      search,
      map: mapView(at("view-map"), { api, stats, known, lastIds: search.lastIds }),
      inside: insideView(at("view-inside"), { api, stats }),
    },
  };
  drawTop(current(), name);
  return true;
}

function hideViews() {
  for (const one of Object.keys(VIEWS)) at(`view-${one}`).hidden = true;
}

function drawTop(state, name) {
  const stats = opened?.name === name ? opened.stats : collections.find((one) => one.name === name);
  const fresh = { by: "", q: "", where: "", at: "0", field: "", first: "", stage: "", probes: "", over: "", truth: "" };
  refill(
    at("which"),
    collections.length > 1
      ? [el("label", { for: "collection", class: "hidden" }, "Collection"),
        select(collections.map((one) => [one.name, `${one.name} (${count(one.rows)})`]), name, (value) => go({ ...fresh, c: value }), { id: "collection" })]
      : el("b", { class: "collection-name" }, name),
    stats && el("span", { class: "soft small which-facts" }, factsOf(stats)),
  );
  refill(at("views"), Object.entries(VIEWS).map(([view, label]) =>
    el("a", { id: `to-${view}`, href: linkTo({ v: view }), "aria-current": viewOf(state) === view ? "page" : null }, label)));
}

/** Say in a few words what a collection is. Where codes come last, no metric has a part in it. */
function factsOf(stats) {
  return [
    collections.length > 1 ? null : counted(stats.rows, "row"),
    stats.stage === "codes" ? null : stats.metric,
    `${stats.codes} codes`,
  ].filter((one) => one !== null).join(", ");
}

function drawTools() {
  const chosen = document.documentElement.dataset.theme ?? "";
  refill(
    at("tools"),
    hasToken() && button("Forget token", () => {
      forgetToken();
      location.reload();
    }, { class: "quiet small" }),
    button("?", showHelp, { class: "quiet round", id: "help", "aria-label": "Keys and help", title: "Keys and help (?)" }),
    button(chosen === "dark" ? "☾" : chosen === "light" ? "☀" : "◐", nextTheme, { class: "quiet round", id: "theme", "aria-label": `Colours: ${THEMES[chosen]}. Change`, title: `Colours: ${THEMES[chosen]}` }),
  );
}

function nextTheme() {
  const names = Object.keys(THEMES);
  const next = names[(names.indexOf(document.documentElement.dataset.theme ?? "") + 1) % names.length];
  if (next === "") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  try {
    if (next === "") localStorage.removeItem("bitkin-theme");
    else localStorage.setItem("bitkin-theme", next);
  } catch {
    // kept as long as the page is open
  }
  drawTools();
}

function title(state, name, view) {
  const asked = view === "search" && state.q !== "" ? `${state.q.slice(0, 60)} · ` : "";
  return `${asked}${VIEWS[view]} · ${name} · bitkin`;
}

function onKey(event) {
  if (event.altKey || event.ctrlKey || event.metaKey || document.querySelector("dialog[open]")) return;
  const isTyping = event.target.closest?.("input:not([type=radio], [type=checkbox]), textarea, select");
  if (event.key === "Escape" && isTyping) event.target.blur();
  if (isTyping) return;
  if (event.key === "/" && opened) {
    event.preventDefault();
    go({ v: "search" });
    at("view-search").hidden = false;
    opened.views.search.focus();
  } else if (event.key === "?") {
    event.preventDefault();
    showHelp();
  }
}

const KEYS = [
  ["/", "go to the search box"],
  ["arrows", "from row to row, among results, stages and points of the map"],
  ["Enter", "search from that row"],
  ["d", "all that the row holds"],
  ["Ctrl Enter", "search by a pasted vector"],
  ["+ − 0", "make the map larger, smaller, whole; or turn the wheel with Ctrl"],
  ["Esc", "leave a box"],
];

let help = null;

function showHelp() {
  help ??= document.body.appendChild(el(
    "dialog",
    { class: "narrow", "aria-labelledby": "help-title" },
    el("header", { class: "dialog-head" }, el("h2", { id: "help-title" }, "Keys"), button("Close", () => help.close(), { class: "quiet" })),
    el("dl", { class: "keys" }, KEYS.map(([key, says]) => el("div", {}, el("dt", {}, el("kbd", {}, key)), el("dd", {}, says)))),
    el("p", { class: "soft small" }, "The address of the page holds what it shows: copy it to share it."),
    el("p", { class: "soft small" }, `bitkin ${about?.version ?? ""}`, about?.read_only ? ", read-only" : ""),
  ));
  help.showModal();
}
