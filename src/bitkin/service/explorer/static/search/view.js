// The search: the form, what was asked for, and what was found.

import { isGivenUp } from "../shared/api.js";
import { button, el, refill } from "../shared/dom.js";
import { emptyState, failure, patience, tell, waiting } from "../shared/messages.js";
import { current, go, linkTo } from "../shared/state.js";
import { count, counted, cut, duration } from "../shared/words.js";
import { card, line } from "../items/card.js";
import { describe } from "../items/describe.js";
import { openDetails } from "../items/details.js";
import { searchForm } from "./form.js";
import { readCount, readFilter, readId, searchBody, usualWay } from "./query.js";
import { resultList, rowsOf } from "./results.js";
import { canMeasureAll, compareStages } from "./stages.js";

// what distances are, by the stage that came last
const WAYS = {
  codes: () => "by how many symbols of the codes differ",
  estimate: (metric) => `by their ${metric} distance as codes estimate it`,
  exact: (metric) => `by their exact ${metric} distance`,
};

/** Return {show, leave, focus}: the search in one collection. */
export function searchView(section, { api, stats, known }) {
  const form = searchForm(stats, known, showRandomRow);
  const found = el("div", { class: "found", "aria-busy": "false" });
  let asking = new AbortController();
  let lastIds = new Set();
  let lastQuery = "";
  refill(section, el("h2", { class: "hidden" }, "Search"), form.element, found);

  async function show(state, takeFocus = false) {
    form.show(state);
    const query = JSON.stringify([state.by, state.q, state.at]);
    const goesOn = takeFocus || found.contains(document.activeElement);
    asking.abort();
    asking = new AbortController();
    const { signal } = asking;
    found.setAttribute("aria-busy", "true");
    const slow = setTimeout(() => refill(found, patience(), waiting(12, state.show === "stages" ? "columns" : "cards")), 250);
    try {
      const shown = await answerTo(state, signal);
      signal.throwIfAborted();
      refill(found, shown);
      form.learned();
      if (query !== lastQuery && lastQuery !== "") scrollTo({ top: 0 });
      lastQuery = query;
      // whoever pressed a row goes on among those that were found
      if (goesOn) found.querySelector(".results .card-link, .stage-link, .pager a")?.focus({ preventScroll: true });
    } catch (error) {
      if (isGivenUp(error)) return;
      refill(found, error.status === 404 ? emptyState("There is no such row.", error.message, link("See all rows", { by: "browse", q: "" })) : failure(error, () => show(current())));
    } finally {
      clearTimeout(slow);
      if (!signal.aborted) found.setAttribute("aria-busy", "false");
    }
  }

  async function answerTo(state, signal) {
    const by = state.by === "" ? usualWay(stats) : state.by;
    const body = searchBody({ ...state, by }, stats);
    if (body === null) return pageOfRows(state, signal);
    const query = await queryPart(state, by, signal);
    return state.show === "stages" ? comparison(state, body, query, signal) : neighbours(state, body, query, signal);
  }

  async function neighbours(state, body, query, signal) {
    const since = performance.now();
    const answer = await api.post("search", { ...body, stage: state.stage || undefined }, signal);
    const took = performance.now() - since;
    const rows = rowsOf(answer);
    learn(rows);
    if (rows.length === 0) {
      tell("Nothing found.");
      return [query, nothingFound(state)];
    }
    tell(`${counted(rows.length, "row")} found, nearest first.`);
    return [
      query,
      headline(`${counted(rows.length, "nearest row", "nearest rows")}`, `${WAYS[answer.stage](answer.metric)}${state.where === "" ? "" : ", filtered"} · ${duration(took / 1000)} there and back`),
      resultList(rows, "Rows found, nearest first", details),
    ];
  }

  async function comparison(state, body, query, signal) {
    const all = state.truth === "all" && canMeasureAll(stats);
    const columns = await compareStages(api, body, stats, all, signal);
    tell("Stages compared.");
    const check = el("input", { type: "checkbox", id: "measure-all", on: { change: (event) => go({ truth: event.target.checked ? "all" : "" }, { replace: true }) } });
    check.checked = all;
    return [
      query,
      headline("The same query at every stage", null,
        canMeasureAll(stats) && el("span", { class: "option" }, check, el("label", { for: "measure-all" }, "Compare with all rows measured"))),
      columns,
    ];
  }

  async function pageOfRows(state, signal) {
    const limit = readCount(state.rows, "Rows per page");
    const at = Number(state.at) || 0;
    const where = readFilter(state);
    const { items, total } = await api.post("items/get", { where, limit, offset: at }, signal);
    learn(items);
    if (items.length === 0) {
      tell("No rows.");
      return at > 0 ? emptyState("No more rows.", link("The first page", { at: "0" })) : nothingThere(state);
    }
    const all = total ?? stats.rows;
    tell(`Rows ${at + 1} to ${at + items.length} of ${all}.`);
    const order = stats.ids === "int" ? "by ascending id" : "in the order in which they came";
    return [
      headline(`${count(at + 1)} to ${count(at + items.length)} of ${counted(all, "row")}`, where ? `that match the filter, ${order}` : order),
      resultList(items, "Rows of the collection", details),
      pager(at, limit, all),
    ];
  }

  /** Show what is searched from or for. */
  async function queryPart(state, by, signal) {
    if (by !== "id") {
      const words = by === "text" ? state.q : "the vector given";
      return el("p", { class: "asked-words" }, el("span", { class: "soft" }, "Nearest to "), by === "text" ? el("q", { dir: "auto" }, cut(words, 200)) : words);
    }
    const { items } = await api.post("items/get", { ids: [readId(state.q, stats)] }, signal);
    const [item] = items;
    if (state.show === "stages") {
      return el("p", { class: "asked-line" }, el("span", { class: "soft" }, "Nearest to"), line(item), button("Details", () => details(item.id), { class: "quiet small" }));
    }
    const asPicture = describe(item.metadata).picture !== null;
    return el("div", { class: "asked" },
      el("h3", {}, "From"),
      el("ol", { class: asPicture ? "grid pictures" : "grid", role: "list" }, [card(item, { link: linkTo({}), onDetails: details, asPicture })]));
  }

  function nothingFound(state) {
    if (state.where !== "") return emptyState("No row matches the filter.", "Take a condition away, or make one wider.", button("Clear the filter", () => go({ where: "" }), { class: "quiet" }));
    if (stats.rows <= 1) return emptyState("There is no other row.", "Add rows, and search again.");
    return emptyState("Nothing was found.", "The query has nothing to hash, such as a text without letters or a vector of zeros. Ask for something else.");
  }

  function nothingThere(state) {
    if (state.where !== "") return nothingFound(state);
    return emptyState(
      "This collection has no rows yet.",
      el("p", {}, "Add some with the write token: ", el("code", {}, "POST v1/items"), ", ", el("code", {}, "bitkin.Client(url).add(vectors)"), ", or from a file with ", el("code", {}, "bitkin collection add"), " before it is served."),
      button("Look again", () => location.reload(), { class: "quiet" }),
    );
  }

  function learn(rows) {
    known.learn(rows.map((row) => row.metadata));
    lastIds = new Set(rows.map((row) => String(row.id)));
  }

  function details(id) {
    openDetails(api, id, stats);
  }

  async function showRandomRow() {
    try {
      const where = readFilter(current());
      const { count: n } = where ? await api.post("count", { where }) : { count: stats.rows };
      if (n === 0) return;
      const { items } = await api.post("items/get", { where, limit: 1, offset: Math.floor(Math.random() * Number(n)) });
      if (items.length > 0) go({ by: "id", q: String(items[0].id), at: "0" });
    } catch (error) {
      refill(found, failure(error));
    }
  }

  return { show, leave: () => asking.abort(), focus: form.focus, lastIds: () => lastIds };
}

function headline(title, about, ...more) {
  return el("div", { class: "headline-row" }, el("h3", {}, title), about && el("p", { class: "soft small" }, about), ...more);
}

function pager(at, limit, all) {
  if (all <= limit && at === 0) return null;
  const last = Math.floor((all - 1) / limit) * limit;
  const step = (label, to, says) =>
    to === null
      ? el("span", { class: "button quiet off", "aria-disabled": "true" }, label)
      : el("a", { class: "button quiet", href: linkTo({ at: String(to) }), "aria-label": says }, label);
  return el("nav", { class: "pager", "aria-label": "Pages" },
    step("« First", at > 0 ? 0 : null, "First page"),
    step("‹ Earlier", at > 0 ? Math.max(0, at - limit) : null, "Page before"),
    step("Later ›", at + limit < all ? at + limit : null, "Next page"),
    step("Last »", at + limit < all ? last : null, "Last page"));
}

function link(words, changes) {
  return el("p", {}, el("a", { href: linkTo(changes) }, words));
}
