// What the page shows, kept in the address, so that a link shows the same to somebody else.

const DEFAULTS = {
  c: "", // collection
  v: "search", // view: search, map, inside
  by: "", // query by: text, id, vector, browse
  q: "", // the query
  k: "10", // neighbours
  rows: "40", // rows per page
  show: "results", // or stages
  stage: "", // last stage, "" for the best
  first: "", // stage that looks at all rows
  over: "", // oversample
  probes: "", // cells to look into
  truth: "", // "all": stages are compared with all rows measured
  where: "", // filter, JSON
  at: "0", // first row of a page
  field: "", // that the map is coloured by
  map: "vectors", // what the map goes by
  n: "1000", // points of the map
};

/** Return what the address says. */
export function current() {
  const given = new URLSearchParams(location.hash.slice(1));
  return Object.fromEntries(Object.entries(DEFAULTS).map(([name, value]) => [name, given.get(name) ?? value]));
}

/** Return the address of the same page with some things changed. */
export function linkTo(changes) {
  const next = { ...current(), ...changes };
  const told = new URLSearchParams();
  for (const [name, value] of Object.entries(next)) {
    if (value !== DEFAULTS[name]) told.set(name, value);
  }
  return `#${told}`;
}

/** Show something else; the button Back returns, unless it takes the place of what was shown. */
export function go(changes, { replace = false } = {}) {
  const link = linkTo(changes);
  if (link === location.hash || (link === "#" && location.hash === "")) return;
  if (replace) {
    history.replaceState(null, "", link);
    dispatchEvent(new HashChangeEvent("hashchange"));
  } else {
    location.hash = link;
  }
}

/** Call `run` whenever something else is to be shown. */
export function onChange(run) {
  addEventListener("hashchange", run);
}
