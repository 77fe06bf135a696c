// The form of a search: how to ask, what to ask for, and how far the search goes.

import { button, el, newId, refill, select } from "../shared/dom.js";
import { parse } from "../shared/json.js";
import { go } from "../shared/state.js";
import { filterBuilder } from "../filter/builder.js";
import { countConditions } from "../filter/where.js";
import { hintFor, isAsked, usualWay, waysToAsk } from "./query.js";

/** Return {element, show, focus}: `onRandom` is called for a row by chance. */
export function searchForm(stats, known, onRandom) {
  const ways = waysToAsk(stats);
  let shown = null; // the state that the form shows
  const box = el("div", { class: "query-box" });
  const radios = ways.map(([way, label]) => {
    const id = newId("way");
    return [
      el("input", { type: "radio", name: "by", value: way, id, on: { change: () => chooseWay(way) } }),
      el("label", { for: id }, label),
    ];
  });
  const submit = el("button", { type: "submit", class: "strong" }, "Search");
  const random = button("A row by chance", onRandom, { class: "quiet", title: "Search from some row of the collection" });
  const filterCount = el("span", { class: "pill", hidden: true });
  const builder = filterBuilder(known, (where) => go({ where, at: "0" }, { replace: true }));
  const filterBox = el("div", { class: "filter-box", id: newId("filter"), hidden: true }, builder.element);
  const filterButton = button(["Filter ", filterCount], () => openFilter(filterBox.hidden), {
    class: "quiet", "aria-expanded": "false", "aria-controls": filterBox.id,
  });
  const options = optionBoxes();
  // on a phone, what is rarely changed is shown when asked for
  const moreButton = button("More options", () => {
    const open = element.classList.toggle("all-options");
    moreButton.setAttribute("aria-expanded", String(open));
    moreButton.textContent = open ? "Fewer options" : "More options";
  }, { class: "quiet more-options", "aria-expanded": "false" });
  const element = el(
    "form",
    { class: "search-form", role: "search", "aria-label": "Search", on: { submit: (event) => {
      event.preventDefault();
      ask();
    } } },
    el("div", { class: "row query-row" },
      el("fieldset", { class: "segments" }, el("legend", { class: "hidden" }, "Search by"), radios),
      box,
      el("span", { class: "row ends" }, submit, random)),
    el("div", { class: "row options-row" }, options.shown, moreButton, filterButton),
    filterBox,
  );

  function chooseWay(way) {
    go({ by: way, q: "", at: "0" });
    if (way === "browse") openFilter(true);
    else input()?.focus();
  }

  function ask() {
    const by = wayOf(shown);
    const box = input();
    const q = box?.value ?? "";
    if (!isAsked({ by, q }, stats)) {
      box?.focus();
      if (shown.q === "") return;
    }
    if (q === shown.q && shown.at === "0") dispatchEvent(new HashChangeEvent("hashchange")); // ask again
    else go({ by, q, at: "0" });
  }

  function input() {
    return box.querySelector("input, textarea");
  }

  function openFilter(open) {
    filterBox.hidden = !open;
    filterButton.setAttribute("aria-expanded", String(open));
  }

  /** Make the box for a way to ask. */
  function drawBox(by, q) {
    if (by === "browse") {
      return refill(box, el("p", { class: "soft browse-hint" }, "All rows by ascending id, or those that a filter leaves."));
    }
    const long = by === "vector" || q.includes("\n");
    const label = { text: "Text to search by", id: "Id to search from", vector: stats.n_features === null ? "Code to search by" : "Vector to search by" }[by];
    const made = el(long ? "textarea" : "input", {
      type: long ? null : "search", rows: long ? "2" : null, class: by === "text" ? "query" : "query code", id: "query", "aria-label": label,
      placeholder: hintFor(by, stats), autocomplete: "off", spellcheck: by === "text" ? "true" : "false", autocapitalize: "none",
      inputmode: by === "id" && stats.ids === "int" ? "numeric" : null,
      on: { keydown: (event) => {
        if (event.key === "Enter" && (!long || event.ctrlKey || event.metaKey)) {
          event.preventDefault();
          ask();
        }
      } },
    });
    made.value = q;
    return refill(box, made);
  }

  function wayOf(state) {
    return ways.some(([way]) => way === state.by) ? state.by : usualWay(stats);
  }

  function optionBoxes() {
    const change = (name) => (event) => go({ [name]: event.target.value.trim(), at: "0" }, { replace: true });
    const number = (name, label, hint) => {
      const id = newId(name);
      return el("span", { class: "option", "data-option": name },
        el("label", { for: id }, label),
        el("input", { id, type: "text", inputmode: "numeric", size: "4", autocomplete: "off", placeholder: hint, on: { change: change(name) } }));
    };
    const choice = (name, label, all) => {
      const box = select(all, "", (value) => go({ [name]: value, at: "0" }, { replace: true }), { id: newId(name) });
      return el("span", { class: "option", "data-option": name }, el("label", { for: box.id }, label), box);
    };
    const show = el("fieldset", { class: "segments small", "data-option": "show" },
      el("legend", { class: "hidden" }, "Show"),
      [["results", "Results"], ["stages", "Compare stages"]].map(([value, label]) => {
        const id = newId("show");
        return [
          el("input", { type: "radio", name: "show", value, id, on: { change: () => go({ show: value }, { replace: true }) } }),
          el("label", { for: id }, label),
        ];
      }));
    const best = `best (${stats.stage})`;
    const shown = [
      show,
      number("k", "Neighbours", "10"),
      number("rows", "Rows per page", "40"),
      choice("stage", "Last stage", [["", best], ["codes", "codes"], ["estimate", "estimate"], ["exact", "exact"]]),
      choice("first", "First stage", [["", "automatic"], ["codes", "codes"], ["estimate", "estimate"]]),
      number("over", "Oversample", String(stats.oversample ?? 10)),
      /cell/i.test(stats.index ?? "") ? number("probes", "Probes", "auto") : null,
    ].filter((one) => one !== null);
    return { shown };
  }

  function showOptions(state, by) {
    const isSearch = isAsked({ by, q: state.q }, stats);
    for (const one of options.shown) {
      const name = one.dataset.option;
      if (name === "show") one.querySelector(`[value=${state.show === "stages" ? "stages" : "results"}]`).checked = true;
      else one.querySelector("input, select").value = state[name];
      // stages are named one by one where they are compared
      one.hidden = name === "rows" ? isSearch : !isSearch || (name === "stage" && state.show === "stages");
    }
  }

  return {
    element,
    focus() {
      const there = input();
      if (there === null) return chooseWay(ways[0][0]);
      there.focus();
      return there.select();
    },
    /** Show what the address says. */
    show(state) {
      const by = wayOf(state);
      if (shown === null || wayOf(shown) !== by || shown.q !== state.q) drawBox(by, state.q);
      shown = state;
      element.querySelector(`input[name=by][value=${by}]`).checked = true;
      submit.hidden = by === "browse";
      random.hidden = stats.rows === 0;
      showOptions(state, by);
      builder.setWhere(state.where);
      const n = conditionsOf(state.where);
      filterCount.hidden = n === 0;
      filterCount.textContent = String(n);
      filterButton.setAttribute("aria-label", n ? `Filter, ${n} set` : "Filter");
    },
    openFilter,
    learned: () => builder.refresh(),
  };
}

function conditionsOf(where) {
  if (where === "") return 0;
  try {
    return countConditions(parse(where));
  } catch {
    return 1;
  }
}
