// The filter as rows of conditions in groups, and as the JSON that the service gets.

import { afterPause, button, el, hidden, newId, refill, select } from "../shared/dom.js";
import { parse, stringify } from "../shared/json.js";
import { emptyGroup, fromWhere, OPERATORS, toWhere } from "./where.js";
import { readValue, readValues, TYPES, typeOf } from "./values.js";

const DEEPEST = 3; // groups within groups that can be made here; JSON may have more
const FOR_FLAGS = ["eq", "ne", "contains", "exists"];

/** Return {element, setWhere}: an editor that calls `onWhere(text)` with JSON, "" for no filter. */
export function filterBuilder(known, onWhere) {
  let root = emptyGroup();
  let shown = ""; // the filter as JSON
  const tree = el("div", { class: "filter-tree" });
  const json = el("textarea", { class: "code", rows: "2", id: newId("where"), spellcheck: "false", autocomplete: "off", "aria-describedby": "where-note" });
  const note = el("p", { class: "small soft", id: "where-note", role: "status" });
  const suggestions = el("datalist", { id: newId("keys") });
  const changeSoon = afterPause(350, () => onWhere(shown));

  json.addEventListener("input", afterPause(500, () => takeJson(json.value.trim())));
  const element = el(
    "div",
    { class: "filter", role: "group", "aria-label": "Filter" },
    tree,
    el("details", { class: "filter-json" },
      el("summary", {}, "As JSON"),
      el("label", { class: "hidden", for: json.id }, "Filter as JSON, as the service takes it under “where”"),
      json,
      note),
    suggestions,
  );

  function takeJson(text) {
    if (text === shown) return;
    try {
      if (text !== "") root = fromWhere(parse(text));
      else root = emptyGroup();
      note.textContent = "";
      json.removeAttribute("aria-invalid");
      shown = text;
      draw();
      onWhere(shown);
    } catch (error) {
      note.textContent = `Not taken yet: ${error.message}`;
      json.setAttribute("aria-invalid", "true");
    }
  }

  /** Something was edited: tell it, and draw again where the shape has changed. */
  function edited({ redraw = false } = {}) {
    const where = toWhere(root);
    shown = where === null ? "" : stringify(where);
    json.value = shown;
    json.removeAttribute("aria-invalid");
    note.textContent = "";
    if (redraw) draw();
    changeSoon();
  }

  function draw() {
    refill(suggestions, [...known.seen.keys()].map((name) => el("option", { value: name })));
    refill(tree, groupRow(root, null, 0));
  }

  function groupRow(group, parent, depth) {
    const joins = [["all", "all of these"], ["any", "any of these"]];
    const negations = [["", "Rows that match"], ["not", "Rows that do not match"]];
    return el(
      "fieldset",
      { class: parent ? "group" : "group outermost" },
      el("legend", { class: "hidden" }, parent ? "Group of conditions" : "Conditions"),
      el("div", { class: "row group-head" },
        select(negations, group.not ? "not" : "", (value) => {
          group.not = value === "not";
          edited();
        }, { "aria-label": "Match or not" }),
        select(joins, group.kind, (value) => {
          group.kind = value;
          edited();
        }, { "aria-label": "All or any" }),
        parent && removeButton("this group", parent, group)),
      group.parts.map((part) => (part.kind === "is" ? conditionRow(part, group) : groupRow(part, group, depth + 1))),
      el("div", { class: "row" },
        button("Add condition", () => {
          group.parts.push(newCondition());
          edited({ redraw: true });
          focusLast(".condition .field-name");
        }, { class: "quiet small" }),
        depth < DEEPEST - 1 && button("Add group", () => {
          group.parts.push({ ...emptyGroup(group.kind === "all" ? "any" : "all"), parts: [newCondition()] });
          edited({ redraw: true });
          focusLast(".condition .field-name");
        }, { class: "quiet small" }),
        !parent && group.parts.length > 0 && button("Clear", () => {
          root = emptyGroup();
          edited({ redraw: true });
          tree.querySelector("button").focus();
        }, { class: "quiet small" })),
    );
  }

  function newCondition() {
    const [field] = known.seen.keys();
    return { kind: "is", field: field ?? "", operator: "eq", value: undefined };
  }

  function focusLast(what) {
    const all = tree.querySelectorAll(what);
    all[all.length - 1]?.focus();
  }

  function removeButton(what, parent, part) {
    return button("×", () => {
      parent.parts.splice(parent.parts.indexOf(part), 1);
      edited({ redraw: true });
      tree.querySelector("button").focus();
    }, { class: "quiet small remove", "aria-label": `Remove ${what}`, title: `Remove ${what}` });
  }

  function conditionRow(part, parent) {
    const row = el("div", { class: "condition" });
    drawCondition(row, part, parent);
    return row;
  }

  function drawCondition(row, part, parent) {
    const declared = Object.hasOwn(known.declared, part.field);
    part.key ??= newId("condition");
    part.type ??= part.value === undefined ? known.seen.get(part.field) ?? "text" : typeOf(part.value);
    const again = () => {
      drawCondition(row, part, parent);
      edited();
    };
    const field = el("input", {
      type: "text", class: "field-name", id: `${part.key}-field`, list: suggestions.id, value: part.field, placeholder: "key", autocomplete: "off", spellcheck: "false", "aria-label": "Key of metadata",
      on: { input: () => {
        part.field = field.value;
        edited();
      }, change: () => {
        const type = known.seen.get(part.field) ?? part.type;
        if (type === part.type && declared === Object.hasOwn(known.declared, part.field)) return;
        if (type !== part.type) part.value = undefined;
        part.type = type;
        again();
      } },
    });
    const operators = part.type === "flag" ? Object.entries(OPERATORS).filter(([name]) => FOR_FLAGS.includes(name)) : Object.entries(OPERATORS);
    refill(
      row,
      field,
      select(operators, part.operator, (value) => {
        const [were, are] = [valueKind(part.operator), valueKind(value)];
        part.operator = value;
        if (were !== are) part.value = are === "exists" ? true : undefined;
        again();
      }, { class: "operator", id: `${part.key}-operator`, "aria-label": "Comparison" }),
      valueInput(part),
      !declared && part.operator !== "exists" && select(Object.entries(TYPES), part.type, (value) => {
        part.type = value;
        part.value = undefined;
        again();
      }, { class: "type", id: `${part.key}-type`, "aria-label": "Type of the value", title: "“7” is not 7" }),
      removeButton("this condition", parent, part),
    );
  }

  function valueInput(part) {
    const label = part.field === "" ? "Value" : `Value of ${part.field}`;
    if (part.operator === "exists" || part.type === "flag") {
      const kind = part.operator === "exists";
      part.value ??= true;
      const options = kind ? [["true", "yes"], ["false", "no"]] : [["true", "true"], ["false", "false"]];
      return select(options, String(Array.isArray(part.value) ? part.value[0] : part.value), (value) => {
        part.value = value === "true";
        edited();
      }, { class: "value", "aria-label": label });
    }
    const several = part.operator === "in";
    const hint = part.type === "number" ? "a number" : "a text";
    const written = part.value === undefined ? "" : several ? [part.value].flat().join("\n") : String(part.value);
    const valueNote = hidden("");
    valueNote.id = newId("value-note");
    const list = several ? null : valueSuggestions(part.field);
    const input = el(several ? "textarea" : "input", {
      class: "value", "aria-label": label, autocomplete: "off", spellcheck: "false", "aria-describedby": valueNote.id,
      type: several ? null : "text", rows: several ? "2" : null, list: list?.id,
      inputmode: part.type === "number" && !several ? "decimal" : null,
      placeholder: several ? (part.type === "number" ? "numbers, one per line" : "texts, one per line") : hint,
      on: { input: () => {
        part.value = several ? readValues(input.value, part.type) : readValue(input.value, part.type);
        const wrong = input.value.trim() !== "" && part.value === undefined;
        input.setAttribute("aria-invalid", String(wrong));
        valueNote.textContent = wrong ? `This must be ${hint}.` : "";
        input.title = valueNote.textContent;
        edited();
      } },
    });
    if (several) input.value = written;
    else input.setAttribute("value", written);
    return el("span", { class: "value-box" }, input, list, valueNote);
  }

  function valueSuggestions(field) {
    const values = known.values.get(field);
    return values ? el("datalist", { id: newId("values") }, [...values].map((value) => el("option", { value }))) : null;
  }

  draw();
  return {
    element,
    /** Show the filter of the address. */
    setWhere(text) {
      if (text === shown) return;
      shown = text;
      json.value = text;
      try {
        root = text === "" ? emptyGroup() : fromWhere(parse(text));
        note.textContent = "";
      } catch (error) {
        root = emptyGroup();
        note.textContent = `This filter cannot be edited as conditions: ${error.message}`;
      }
      draw();
    },
    /** Learn new keys without disturbing what is being edited. */
    refresh() {
      refill(suggestions, [...known.seen.keys()].map((name) => el("option", { value: name })));
    },
  };
}

function valueKind(operator) {
  return operator === "exists" ? "exists" : operator === "in" ? "list" : "one";
}
