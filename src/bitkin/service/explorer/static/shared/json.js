// JSON whose whole numbers stay exact: ids go up to 2^63 − 1, JavaScript's numbers to 2^53.

const LONG = /\d{16}/;

/** Read JSON; a whole number that a number cannot hold becomes a BigInt. */
export function parse(text) {
  return LONG.test(text) ? JSON.parse(text, exact) : JSON.parse(text);
}

/** Write JSON, BigInts as numbers. */
export function stringify(value) {
  if (typeof value === "bigint") return value.toString();
  if (Array.isArray(value)) return `[${value.map((one) => stringify(one ?? null)).join(",")}]`;
  if (value !== null && typeof value === "object") {
    const entries = Object.entries(value).filter(([, one]) => one !== undefined);
    return `{${entries.map(([key, one]) => `${JSON.stringify(key)}:${stringify(one)}`).join(",")}}`;
  }
  return JSON.stringify(value);
}

/** Read a whole number of digits alone. */
export function wholeNumber(text) {
  const number = Number(text);
  return Number.isSafeInteger(number) ? number : BigInt(text);
}

function exact(key, value, context) {
  const big = typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value);
  return big && /^-?\d+$/.test(context?.source ?? "") ? BigInt(context.source) : value;
}
