// Elements. What comes from a collection goes in as text, never as HTML.

const SVG = "http://www.w3.org/2000/svg";

/** Make an element: attributes, `on` for listeners, and children: elements, texts, lists or null. */
export function el(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** Make an element of a drawing. */
export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

/** Put other children in the place of those that are there. What had the focus has it again, if there is
 * something of the same id. */
export function refill(parent, ...children) {
  const focused = parent.contains(document.activeElement) ? document.activeElement.id : "";
  parent.replaceChildren(...flatten(children));
  if (focused !== "") document.getElementById(focused)?.focus();
  return parent;
}

/** Text for those who hear the page. */
export function hidden(text) {
  return el("span", { class: "hidden" }, text);
}

/** A button that does something on this page. */
export function button(label, onClick, attributes = {}) {
  return el("button", { type: "button", on: { click: onClick }, ...attributes }, label);
}

/** A choice of one: `options` are [value, label] pairs. */
export function select(options, value, onChange, attributes = {}) {
  const box = el(
    "select",
    { on: { change: () => onChange(box.value) }, ...attributes },
    options.map(([one, label]) => el("option", { value: one }, label)),
  );
  box.value = value;
  return box;
}

let made = 0;

/** A name for an element that no other one has. */
export function newId(word) {
  made += 1;
  return `${word}-${made}`;
}

/** A function that runs once calls have ceased for so many milliseconds. */
export function afterPause(milliseconds, run) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => run(...given), milliseconds);
  };
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") {
      for (const [event, run] of Object.entries(value)) element.addEventListener(event, run);
    } else {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  element.append(...flatten(children));
  return element;
}

function flatten(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
}
