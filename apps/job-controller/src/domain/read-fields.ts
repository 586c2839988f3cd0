import { isObject } from "@muster/resources";
import type { Problem } from "./kind.ts";

/** Collects problems and warnings while a manifest is read, so that all are reported together. */
export type ReadNotes = { readonly problems: Problem[]; readonly warnings: Problem[] };

type Range = { readonly min: number; readonly max: number };

export const INT32: Range = { min: -(2 ** 31), max: 2 ** 31 - 1 };
export const NOT_NEGATIVE: Range = { min: 0, max: INT32.max };

/** An object of a manifest. Each read returns undefined for an absent field, and for an invalid one after it has noted the problem. */
export type Fields = {
  readonly path: string;
  /** The names of the present fields, sorted because their order in a manifest has no meaning. */
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
  /** Notes a problem of a field; an empty name means the object itself. */
  readonly refuse: (name: string, reason: string) => void;
  readonly warn: (name: string, reason: string) => void;
};

/** Reads an object. For any other value it notes a problem and returns undefined. Null fields are absent, as for the API server. */
export function toFields(value: unknown, path: string, notes: ReadNotes): Fields | undefined {
  if (isObject(value)) return fieldsOfObject(value, path, notes);
  notes.problems.push({ field: path, reason: `must be an object, not ${describe(value)}` });
  return undefined;
}

function fieldsOfObject(value: Readonly<Record<string, unknown>>, path: string, notes: ReadNotes): Fields {
  const at = (name: string): string => (path === "" || name === "" ? path + name : `${path}.${name}`);
  const raw = (name: string): unknown => (Object.hasOwn(value, name) ? (value[name] ?? undefined) : undefined);
  const checked = <Value>(field: string, found: unknown, { matches, wanted }: Form<Value>): Value | undefined => {
    if (found === undefined || matches(found)) return found;
    notes.problems.push({ field, reason: `must be ${wanted}, not ${describe(found)}` });
    return undefined;
  };
  const one = <Value>(name: string, form: Form<Value>): Value | undefined => checked(at(name), raw(name), form);
  const items = (name: string): readonly (readonly [string, unknown])[] =>
    (one(name, LIST) ?? []).map((item, index) => [`${at(name)}[${index}]`, item ?? null]);
  const many = <Value>(name: string, form: Form<Value>): readonly Value[] =>
    items(name)
      .map(([field, item]) => checked(field, item, form))
      .filter((item) => item !== undefined);
  return {
    path,
    names: Object.keys(value)
      .filter((name) => raw(name) !== undefined)
      .sort(),
    raw,
    refuse: (name, reason) => {
      notes.problems.push({ field: at(name), reason });
    },
    warn: (name, reason) => {
      notes.warnings.push({ field: at(name), reason });
    },
    text: (name) => one(name, TEXT),
    integer: (name, range) => one(name, makeIntegerForm(range)),
    flag: (name) => one(name, FLAG),
    oneOf: (name, words) => {
      const word = words.find((each) => each === raw(name));
      return (
        word ??
        one(name, {
          matches: (_found): _found is (typeof words)[number] => false,
          wanted: `one of ${words.join(", ")}`,
        })
      );
    },
    object: (name) => {
      const found = raw(name);
      return found === undefined ? undefined : toFields(found, at(name), notes);
    },
    objects: (name) =>
      items(name)
        .map(([field, item]) => toFields(item, field, notes))
        .filter((item) => item !== undefined),
    texts: (name) => many(name, TEXT),
    integers: (name, range) => many(name, makeIntegerForm(range)),
  };
}

type Form<Value> = { readonly matches: (found: unknown) => found is Value; readonly wanted: string };

const TEXT: Form<string> = { matches: (found) => typeof found === "string", wanted: "a string" };
const FLAG: Form<boolean> = { matches: (found) => typeof found === "boolean", wanted: "true or false" };
const LIST: Form<readonly unknown[]> = { matches: (found) => Array.isArray(found), wanted: "a list" };

function makeIntegerForm({ min, max }: Range): Form<number> {
  const matches = (found: unknown): found is number =>
    typeof found === "number" && Number.isInteger(found) && found >= min && found <= max;
  return { matches, wanted: `a whole number from ${min} to ${max}` };
}

const SHOWN = 40;

function describe(value: unknown): string {
  if (value === null || value === undefined) return "empty";
  if (typeof value === "string") return `"${value.length > SHOWN ? `${value.slice(0, SHOWN)}...` : value}"`;
  if (Array.isArray(value)) return "a list";
  return typeof value === "object" ? "an object" : JSON.stringify(value);
}
