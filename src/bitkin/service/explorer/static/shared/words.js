// Numbers as people read them.

const GROUPED = new Intl.NumberFormat("en-US");

/** Write a count: 12,345. */
export function count(n) {
  return GROUPED.format(n);
}

/** Write a count with its noun: "1 row", "12 rows". */
export function counted(n, noun, plural = `${noun}s`) {
  return `${count(n)} ${n === 1 || n === 1n ? noun : plural}`;
}

/** Write a measure with four digits that count. */
export function measure(x) {
  if (x === null || x === undefined || Number.isNaN(x)) return "–";
  if (typeof x === "bigint" || Number.isInteger(x)) return count(x);
  const size = Math.abs(x);
  if (size >= 1e6 || size < 1e-4) return x.toExponential(2).replace(/-/g, "−");
  return x.toLocaleString("en-US", { maximumSignificantDigits: 4 }).replace("-", "−");
}

/** Write seconds: 85 µs, 1.4 ms, 2.1 s. */
export function duration(seconds) {
  if (seconds < 1e-3) return `${short(seconds * 1e6)} µs`;
  if (seconds < 1) return `${short(seconds * 1e3)} ms`;
  return `${short(seconds)} s`;
}

/** Write bytes: 4.2 MB. */
export function bytes(n) {
  if (n === null || n === undefined) return "–";
  const units = ["bytes", "KB", "MB", "GB", "TB"];
  let size = n;
  let unit = 0;
  while (size >= 1000 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${unit ? short(size) : count(n)} ${units[unit]}`;
}

/** Write a share as a percentage. */
export function percent(share) {
  const points = share * 100;
  return `${points.toLocaleString("en-US", { maximumFractionDigits: points < 10 ? 1 : 0 })} %`;
}

/** Write an id so that it can be seen: spaces at its ends, and what has no shape, within quotes. */
export function shownId(id) {
  const text = String(id);
  return text.trim() !== text || /\p{Cc}/u.test(text) ? JSON.stringify(text) : text;
}

/** Cut a text that is too long. */
export function cut(text, most) {
  const letters = text.length > most * 2 ? text.slice(0, most * 2) : text;
  const all = [...letters];
  return all.length > most || letters.length < text.length ? `${all.slice(0, most).join("")}…` : text;
}

function short(x) {
  return x.toLocaleString("en-US", { maximumSignificantDigits: x >= 100 ? 3 : 2 });
}
