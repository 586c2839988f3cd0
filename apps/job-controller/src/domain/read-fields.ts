import type { Problem } from "./kind.ts";

/** Collects what is said about a manifest while it is read, so that one look names everything. */
export type Notes = { readonly problems: Problem[]; readonly warnings: Problem[] };

export type Range = { readonly min: number; readonly max: number };

export const INT32: Range = { min: -(2 ** 31), max: 2 ** 31 - 1 };
export const NOT_NEGATIVE: Range = { min: 0, max: INT32.max };

/** An object of a manifest. Each read answers undefined for a field that is absent, and for a wrong one after it has noted the problem. */
export type Fields = {
  readonly path: string;
  readonly names: readonly string[];
  readonly raw: (name: string) => unknown;
  readonly text: (name: string) => string | undefined;
  readonly integer: (name: string, range: Range) => number | undefined;
  readonly flag: (name: string) => boolean | undefined;
  readonly oneOf: <Word extends string>(name: string, words: readonly Word[]) => Word | undefined;
  readonly object: (name: string) => Fields | undefined;
  readonly objects: (name: string) => readonly Fields[];
  readonly texts: (name: string) => readonly string[];
  readonly integers: (name: string, range: Range) => readonly number[];
  /** Notes that something is wrong with a field; an empty name is the object itself. */
  readonly refuse: (name: string, reason: string) => void;
  readonly warn: (name: string, reason: string) => void;
};

/** Undefined, with a problem noted, for what is no object. Fields that are null are absent, as the API server has it. */
export function fieldsOf(value: unknown, path: string, notes: Notes): Fields | undefined {
  if (isObject(value)) return fieldsOfObject(value, path, notes);
  notes.problems.push({ field: path, reason: `must be an object, not ${describe(value)}` });
  return undefined;
}

function fieldsOfObject(value: Readonly<Record<string, unknown>>, path: string, notes: Notes): Fields {
  const at = (name: string): string => (path === "" || name === "" ? path + name : `${path}.${name}`);
  const raw = (name: string): unknown => (Object.hasOwn(value, name) ? (value[name] ?? undefined) : undefined);
  const refuse = (name: string, reason: string): void => {
    notes.problems.push({ field: at(name), reason });
  };
  const wrong = (field: string, wanted: string, found: unknown): undefined => {
    notes.problems.push({ field, reason: `must be ${wanted}, not ${describe(found)}` });
    return undefined;
  };
  const items = (name: string): readonly unknown[] => {
    const found = raw(name);
    if (found === undefined || Array.isArray(found)) return found ?? [];
    wrong(at(name), "a list", found);
    return [];
  };
  const integerIn = (field: string, found: unknown, { min, max }: Range): number | undefined => {
    if (typeof found === "number" && Number.isInteger(found) && found >= min && found <= max) return found;
    return wrong(field, `a whole number from ${min} to ${max}`, found);
  };
  return {
    path,
    names: Object.keys(value).filter((name) => raw(name) !== undefined),
    raw,
    refuse,
    warn: (name, reason) => {
      notes.warnings.push({ field: at(name), reason });
    },
    text: (name) => {
      const found = raw(name);
      return found === undefined || typeof found === "string" ? found : wrong(at(name), "a string", found);
    },
    integer: (name, range) => {
      const found = raw(name);
      return found === undefined ? undefined : integerIn(at(name), found, range);
    },
    flag: (name) => {
      const found = raw(name);
      return found === undefined || typeof found === "boolean" ? found : wrong(at(name), "true or false", found);
    },
    oneOf: (name, words) => {
      const found = raw(name);
      if (found === undefined) return undefined;
      return words.find((word) => word === found) ?? wrong(at(name), `one of ${words.join(", ")}`, found);
    },
    object: (name) => {
      const found = raw(name);
      return found === undefined ? undefined : fieldsOf(found, at(name), notes);
    },
    objects: (name) =>
      items(name)
        .map((item, index) => fieldsOf(item, `${at(name)}[${index}]`, notes))
        .filter((item) => item !== undefined),
    texts: (name) =>
      items(name)
        .map((item, index) => (typeof item === "string" ? item : wrong(`${at(name)}[${index}]`, "a string", item)))
        .filter((item) => item !== undefined),
    integers: (name, range) =>
      items(name)
        .map((item, index) => integerIn(`${at(name)}[${index}]`, item, range))
        .filter((item) => item !== undefined),
  };
}

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const SHOWN = 40;

/** What a value is, for people. */
function describe(value: unknown): string {
  if (value === null || value === undefined) return "empty";
  if (typeof value === "string") return `"${value.length > SHOWN ? `${value.slice(0, SHOWN)}...` : value}"`;
  if (Array.isArray(value)) return "a list";
  return typeof value === "object" ? "an object" : JSON.stringify(value);
}
