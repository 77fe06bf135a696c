// Filters: as the service takes them (JSON), and as groups of conditions that a person edits.
//
// A group is {kind: "all" | "any", not, parts}; a condition {kind: "is", field, operator, value}, whose
// value is undefined as long as it is not written.

export const OPERATORS = {
  eq: "is",
  ne: "is not",
  lt: "is less than",
  lte: "is at most",
  gt: "is more than",
  gte: "is at least",
  in: "is one of",
  contains: "contains",
  exists: "exists",
};

const JOINS = { and: "all", or: "any" };

export function emptyGroup(kind = "all") {
  return { kind, not: false, parts: [] };
}

/** Return the JSON value of a group, null where it says nothing yet. */
export function toWhere(group) {
  const parts = group.parts.map((part) => (part.kind === "is" ? leafToWhere(part) : toWhere(part))).filter((part) => part !== null);
  if (parts.length === 0) return null;
  const joined = group.kind === "any" ? (parts.length === 1 ? parts[0] : { or: parts }) : joinAll(parts);
  return group.not ? { not: joined } : joined;
}

/** Return the group that a JSON value stands for; throws with a message where it stands for none. */
export function fromWhere(where) {
  const group = read(where);
  // the outermost is a group of parts, which can be added to
  return group.kind === "is" ? { ...emptyGroup(), parts: [group] } : group;
}

/** Return how many conditions say something. */
export function countConditions(where) {
  if (where === null) return 0;
  let n = 0;
  for (const [key, value] of Object.entries(where)) {
    if (key === "and" || key === "or") n += value.reduce((sum, part) => sum + countConditions(part), 0);
    else if (key === "not") n += countConditions(value);
    else n += isPlain(value) ? Object.keys(value).length : 1;
  }
  return n;
}

function leafToWhere({ field, operator, value }) {
  if (field === "" || value === undefined) return null;
  return { [field]: operator === "eq" ? value : operator === "in" ? value : { [operator]: value } };
}

/** All of several: one object where no key comes twice, and else a list. */
function joinAll(parts) {
  if (parts.length === 1) return parts[0];
  const joined = Object.create(null); // a key may have any name
  for (const part of parts) {
    for (const [key, value] of Object.entries(part)) {
      const both = [joined[key], value];
      if (!(key in joined)) joined[key] = value;
      else if (both.every(isPlain) && !["not", "and", "or"].includes(key) && Object.keys(value).every((name) => !(name in joined[key]))) {
        joined[key] = { ...joined[key], ...value };
      } else return { and: parts };
    }
  }
  return joined;
}

function read(where) {
  if (!isPlain(where)) throw new Error("a condition must be an object in braces.");
  const parts = Object.entries(where).flatMap(([key, value]) => readEntry(key, value));
  return parts.length === 1 ? parts[0] : { ...emptyGroup(), parts };
}

function readEntry(key, value) {
  if (Object.hasOwn(JOINS, key)) {
    if (!Array.isArray(value)) throw new Error(`"${key}" takes a list of conditions.`);
    return [{ kind: JOINS[key], not: false, parts: value.map(read) }];
  }
  if (key === "not") {
    const inner = read(value);
    if (inner.kind !== "is" && !inner.not) return [{ ...inner, not: true }];
    return [{ ...emptyGroup(), not: true, parts: [inner] }];
  }
  if (Array.isArray(value)) return [leaf(key, "in", value)];
  if (!isPlain(value)) return [leaf(key, "eq", value)];
  return Object.entries(value).map(([operator, operand]) => {
    if (!Object.hasOwn(OPERATORS, operator)) throw new Error(`"${operator}" is no operator: use ${Object.keys(OPERATORS).join(", ")}.`);
    return leaf(key, operator, operand);
  });
}

function leaf(field, operator, value) {
  return { kind: "is", field, operator, value };
}

function isPlain(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}
