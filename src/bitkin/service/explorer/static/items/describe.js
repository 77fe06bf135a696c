// What of a row's metadata is a picture, a title, a text, and what else there is to say.

import { cut } from "../shared/words.js";

const PICTURE_DATA = /^data:image\/(png|jpe?g|gif|webp|avif|bmp|x-icon|svg\+xml)[;,]/i;
const WEB = /^https?:\/\/[^\s]+$/i;
const PICTURE_FILE = /\.(png|jpe?g|gif|webp|avif|bmp|svg)$/i;
const PICTURE_KEY = /(^|[^a-z])(image|img|picture|pic|photo|thumb|thumbnail|cover|poster|avatar|icon|logo)s?([^a-z]|$)/i;
const TITLES = ["title", "name", "label", "caption", "headline", "subject"];
const TEXTS = ["text", "body", "content", "abstract", "description", "summary", "document", "passage", "sentence", "quote"];
const LONG_TEXT = 40;
const MOST_LETTERS = 2000; // of a value on a card

/** Return the parts of metadata: picture (an address or null), title, text, and facts as [key, text]. */
export function describe(metadata) {
  const entries = Object.entries(metadata ?? {});
  const picture = findPicture(entries);
  const rest = entries.filter(([key, value]) => key !== picture?.key && !isPictureData(value));
  const title = rest.find(([key, value]) => isTitle(key, value));
  const text = findText(rest.filter((entry) => entry !== title));
  const facts = rest
    .filter((entry) => entry !== title && entry !== text)
    .map(([key, value]) => [key, brief(value)])
    .filter(([, value]) => value !== "");
  return {
    picture: picture?.address ?? null,
    title: title ? { key: title[0], words: cut(String(title[1]), 200) } : null,
    text: text ? cut(text[1].slice(0, MOST_LETTERS), 600) : null,
    facts,
  };
}

/** Return a value in few letters. */
export function brief(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "string") return cut(value, 80);
  if (typeof value === "number" || typeof value === "bigint") return typeof value === "bigint" ? String(value) : String(Number(value.toPrecision(6)));
  if (typeof value === "boolean") return value ? "true" : "false";
  if (Array.isArray(value)) return cut(value.slice(0, 12).map(brief).join(", "), 80);
  return `{${cut(Object.keys(value).join(", "), 60)}}`;
}

function findPicture(entries) {
  const addresses = entries
    .map(([key, value]) => ({ key, address: pictureAddress(key, Array.isArray(value) ? value[0] : value) }))
    .filter((one) => one.address !== null);
  return addresses.find((one) => PICTURE_KEY.test(one.key)) ?? addresses[0] ?? null;
}

function pictureAddress(key, value) {
  if (typeof value !== "string") return null;
  if (isPictureData(value)) return value;
  if (value.length > 4000 || !WEB.test(value)) return null;
  let path;
  try {
    path = new URL(value).pathname;
  } catch {
    return null;
  }
  return PICTURE_FILE.test(path) || PICTURE_KEY.test(key) ? value : null;
}

function isPictureData(value) {
  return typeof value === "string" && PICTURE_DATA.test(value.slice(0, 40));
}

function isTitle(key, value) {
  const short = typeof value === "string" ? value !== "" && value.length <= 200 : ["number", "bigint"].includes(typeof value);
  return short && TITLES.includes(key.toLowerCase());
}

function findText(entries) {
  const texts = entries.filter(([, value]) => typeof value === "string" && value.trim() !== "");
  const known = texts.find(([key]) => TEXTS.includes(key.toLowerCase()));
  if (known) return known;
  const long = texts.filter(([, value]) => value.length > LONG_TEXT && !WEB.test(value));
  return long.sort((a, b) => b[1].length - a[1].length)[0] ?? null;
}
