// What is looked for: from what a person writes to what the service takes.

import { parse, wholeNumber } from "../shared/json.js";
import { count, counted, cut } from "../shared/words.js";

/** The ways to ask that a collection has, as [name, label] pairs. */
export function waysToAsk(stats) {
  const ways = [["id", "Id"]];
  if (stats.can_embed) ways.unshift(["text", "Text"]);
  ways.push(["vector", takesVectors(stats) ? "Vector" : "Code"]);
  ways.push(["browse", "Browse"]);
  return ways;
}

/** Return how a person asks who has not said how. */
export function usualWay(stats) {
  return stats.can_embed ? "text" : "id";
}

/** Say what belongs into the box. */
export function hintFor(by, stats) {
  if (by === "text") return "Words to look for";
  if (by === "id") return stats.ids === "int" ? "A whole number, such as 42" : "The id of a row";
  if (takesVectors(stats)) {
    return stats.vectors === "csr"
      ? 'Numbers, or {"indices": [3, 7], "values": [1, 2]}'
      : `${stats.n_features === null ? "N" : count(stats.n_features)} numbers: [0.1, 0.2, …], or separated by spaces or commas`;
  }
  return `A code: ${stats.bytes_per_code * 2} hexadecimal digits`;
}

/** Return the request for neighbours, or null where nothing is asked for; throws with what is wrong. */
export function searchBody(state, stats) {
  const asked = askedFor(state, stats);
  if (asked === null) return null;
  return {
    ...asked,
    k: readCount(state.k, "Neighbours"),
    where: readFilter(state),
    first: state.first || undefined,
    oversample: state.over === "" ? undefined : readCount(state.over, "Oversample"),
    probes: state.probes === "" ? undefined : readCount(state.probes, "Probes"),
  };
}

/** Return the filter of the address, undefined where there is none. */
export function readFilter(state) {
  if (state.where === "") return undefined;
  try {
    return parse(state.where);
  } catch {
    throw new Error("The filter in this address is no JSON. Clear it, or correct it under “As JSON”.");
  }
}

/** Return the id that a text stands for. */
export function readId(text, stats) {
  if (stats.ids !== "int") return text;
  const trimmed = text.trim();
  if (!/^\d{1,19}$/.test(trimmed)) throw new Error(`Ids of this collection are whole numbers, and ${JSON.stringify(cut(trimmed, 40))} is none.`);
  return wholeNumber(trimmed);
}

/** Return whether something is asked for; an id that is a text may be spaces alone. */
export function isAsked({ by, q }, stats) {
  return by !== "browse" && (by === "id" && stats.ids === "str" ? q !== "" : q.trim() !== "");
}

function askedFor({ by, q }, stats) {
  if (!isAsked({ by, q }, stats)) return null;
  if (by === "text") return { texts: [q] };
  if (by === "id") return { ids: [readId(q, stats)] };
  return readVector(q.trim(), stats);
}

/** Read a count of a box. */
export function readCount(text, name) {
  if (!/^\d{1,9}$/.test(text.trim()) || Number(text) === 0) throw new Error(`${name} must be a whole number from 1 on.`);
  return Number(text);
}

function readVector(text, stats) {
  const digits = stats.bytes_per_code * 2;
  const isCode = text.length === digits && /^[0-9a-f]+$/i.test(text);
  if (!takesVectors(stats)) {
    if (isCode) return { codes: [text] };
    throw new Error(`A code of this collection has ${digits} hexadecimal digits.`);
  }
  // as many digits as a code has are one, unless they can be the numbers of a vector
  if (isCode && stats.n_features !== 1) return { codes: [text] };
  return { vectors: [parseVector(text, stats.n_features)] };
}

function takesVectors(stats) {
  return stats.n_features !== null && stats.n_features !== undefined;
}

function parseVector(text, size) {
  if (text.startsWith("{")) return parseJson(text);
  let numbers = text.startsWith("[") ? parseJson(text) : text.split(/[\s,;]+/).filter((word) => word !== "").map(Number);
  if (numbers.length === 1 && Array.isArray(numbers[0])) [numbers] = numbers; // [[...]]
  const bad = numbers.findIndex((one) => typeof one !== "number" || !Number.isFinite(one));
  if (bad >= 0) throw new Error(`Number ${bad + 1} of the vector is none.`);
  if (size !== null && numbers.length !== size) {
    throw new Error(`A vector of this collection has ${counted(size, "number")}, and this one ${count(numbers.length)}.`);
  }
  return numbers;
}

function parseJson(text) {
  try {
    return parse(text);
  } catch (error) {
    throw new Error(`The vector cannot be read: ${error.message}`);
  }
}
