// The service: requests, the token, and what it says where something is wrong.

import { parse, stringify } from "./json.js";

const TOKEN = "bitkin-token";
const BASE = new URL("v1/", document.baseURI);

/** What the service refused, in its own words. */
export class Problem extends Error {
  constructor(detail, { status = 0, field = null, retryAfter = null } = {}) {
    super(detail);
    this.status = status;
    this.field = field;
    this.retryAfter = retryAfter;
  }
}

/** Return whether a request was given up because its answer is no longer wanted. */
export function isGivenUp(error) {
  return error?.name === "AbortError";
}

let askForToken = null;
let asking = null;
let underWay = 0;
let showBusy = () => {};

/** Say how a token is asked for, and how to show that requests are under way. */
export function prepare({ ask, busy }) {
  askForToken = ask;
  showBusy = busy;
}

export function hasToken() {
  return readToken() !== null;
}

export function forgetToken() {
  keep(null);
}

/** Ask the service as a whole. */
export const service = {
  about: (signal) => request("GET", "service", {}, signal),
  collections: (signal) => request("GET", "collections", {}, signal),
};

/** Ask one collection. */
export function collectionApi(name) {
  const at = `collections/${encodeURIComponent(name)}/`;
  return {
    get: (path, params = {}, signal = undefined) => request("GET", at + path, { params }, signal),
    post: (path, body, signal = undefined) => request("POST", at + path, { body }, signal),
  };
}

async function request(method, path, { params = {}, body }, signal) {
  const url = new URL(path, BASE);
  for (const [name, value] of Object.entries(params)) {
    if (value !== "" && value !== null && value !== undefined) url.searchParams.set(name, value);
  }
  underWay += 1;
  showBusy(underWay);
  try {
    for (;;) {
      const token = readToken();
      const answer = await send(method, url, body, token, signal);
      if (answer.status !== 401) return await read(answer);
      // another request may have got a token meanwhile
      if (readToken() === token) await getToken(await problemOf(answer), token !== null);
      signal?.throwIfAborted();
    }
  } finally {
    underWay -= 1;
    showBusy(underWay);
  }
}

async function send(method, url, body, token, signal) {
  const headers = { Accept: "application/json" };
  if (token !== null) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  try {
    const text = body === undefined ? undefined : stringify(body);
    return await fetch(url, { method, headers, body: text, signal, cache: "no-store" });
  } catch (error) {
    if (isGivenUp(error)) throw error;
    throw new Problem("The service does not answer. Is it still running?");
  }
}

async function read(answer) {
  if (!answer.ok) throw await problemOf(answer);
  try {
    return parse(await answer.text());
  } catch (error) {
    if (isGivenUp(error)) throw error;
    throw new Problem("The service broke off in the middle of its answer. Try again.");
  }
}

async function problemOf(answer) {
  let told = {};
  try {
    told = parse(await answer.text()) ?? {};
  } catch {
    // not a problem of ours: a proxy between may have answered
  }
  const detail = typeof told.detail === "string" ? told.detail : `${answer.status} ${answer.statusText}`.trim();
  return new Problem(detail, {
    status: answer.status,
    field: told.field ?? null,
    retryAfter: answer.headers.get("Retry-After"),
  });
}

/** Get a token from the person, once for all requests that wait for one. */
function getToken(problem, wasGiven) {
  asking ??= askForToken(wasGiven)
    .then((token) => {
      if (token === null) throw problem;
      keep(token);
    })
    .finally(() => {
      asking = null;
    });
  return asking;
}

let kept = null; // for browsers that keep nothing for the page

function keep(token) {
  kept = token;
  try {
    if (token === null) sessionStorage.removeItem(TOKEN);
    else sessionStorage.setItem(TOKEN, token);
  } catch {
    // until the page is left, then
  }
}

function readToken() {
  if (kept !== null) return kept;
  try {
    return sessionStorage.getItem(TOKEN);
  } catch {
    return null;
  }
}
