// Values of conditions: what a person writes, and the types that a key has.

import { wholeNumber } from "../shared/json.js";

export const TYPES = { text: "text", number: "number", flag: "true or false" };
const DECLARED = { int: "number", float: "number", str: "text", bool: "flag" };
const MOST_KEYS = 60;

/** Return the type of a declared field, by the word that the service has for it. */
export function declaredType(word) {
  return Object.hasOwn(DECLARED, word) ? DECLARED[word] : "text";
}

/** Return the type that a value has. */
export function typeOf(value) {
  const one = Array.isArray(value) ? value[0] : value;
  if (typeof one === "boolean") return "flag";
  return typeof one === "number" || typeof one === "bigint" ? "number" : "text";
}

/** Read what was written as a value of a type; undefined where it is none. */
export function readValue(text, type) {
  if (type === "flag") return text === "true" ? true : text === "false" ? false : undefined;
  if (type === "text") return text === "" ? undefined : text;
  const trimmed = text.trim();
  if (/^-?\d+$/.test(trimmed)) return wholeNumber(trimmed);
  return /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(trimmed) ? Number(trimmed) : undefined;
}

/** Read values, one per line; undefined where one of them is none. */
export function readValues(text, type) {
  const lines = text.split("\n").map((one) => (type === "text" ? one : one.trim())).filter((one) => one !== "");
  const values = lines.map((one) => readValue(one, type));
  return lines.length === 0 || values.includes(undefined) ? undefined : values;
}

/** What is known of the keys of a collection: declared types, and those that were seen. */
export class KnownFields {
  constructor(declared) {
    this.declared = declared;
    this.seen = new Map(Object.entries(declared).map(([name, word]) => [name, declaredType(word)]));
    this.values = new Map(); // short texts seen, by key
  }

  /** Learn from the metadata of rows. */
  learn(rows) {
    for (const metadata of rows) {
      for (const [key, value] of Object.entries(metadata ?? {})) {
        if (["and", "or", "not"].includes(key) || (value !== null && typeof value === "object" && !Array.isArray(value))) continue;
        if (!this.seen.has(key) && this.seen.size < MOST_KEYS) this.seen.set(key, typeOf(value));
        if (typeof value === "string" && value.length <= 60) this.#note(key, value);
      }
    }
  }

  #note(key, value) {
    const values = this.values.get(key) ?? new Set();
    if (values.size < 50) values.add(value);
    this.values.set(key, values);
  }
}
