import { isObject, type Json, type JsonObject } from "../json.ts";

/** A set of fields of an object, as a tree. Keys are as in Kubernetes' FieldsV1: `f:name`, `k:{"name":"c"}` of a keyed list, `v:"x"` of a set. */
export type FieldSet = {
  /** The place itself belongs to the set. */
  readonly own: boolean;
  readonly below: ReadonlyMap<string, FieldSet>;
};

export const NOTHING: FieldSet = { own: false, below: new Map() };
export const ITSELF: FieldSet = { own: true, below: new Map() };

export function fieldSet(own: boolean, below: Iterable<readonly [string, FieldSet]>): FieldSet {
  return { own, below: new Map([...below].filter(([, set]) => !isEmpty(set))) };
}

export function isEmpty({ own, below }: FieldSet): boolean {
  return !own && below.size === 0;
}

export function union(a: FieldSet, b: FieldSet): FieldSet {
  if (isEmpty(b)) return a;
  if (isEmpty(a)) return b;
  const keys = new Set([...a.below.keys(), ...b.below.keys()]);
  return fieldSet(
    a.own || b.own,
    [...keys].map((key) => [key, union(a.below.get(key) ?? NOTHING, b.below.get(key) ?? NOTHING)]),
  );
}

export function intersection(a: FieldSet, b: FieldSet): FieldSet {
  if (isEmpty(a) || isEmpty(b)) return NOTHING;
  return fieldSet(
    a.own && b.own,
    [...b.below].map(([key, set]) => [key, intersection(a.below.get(key) ?? NOTHING, set)]),
  );
}

/** The first set itself when nothing of it is in the other. */
export function difference(a: FieldSet, b: FieldSet): FieldSet {
  if (isEmpty(a) || isEmpty(b)) return a;
  const own = a.own && !b.own;
  let below: Map<string, FieldSet> | undefined;
  for (const [key, set] of b.below) {
    const before = a.below.get(key);
    if (before === undefined) continue;
    const after = difference(before, set);
    if (after === before) continue;
    below ??= new Map(a.below);
    if (isEmpty(after)) below.delete(key);
    else below.set(key, after);
  }
  return own === a.own && below === undefined ? a : { own, below: below ?? a.below };
}

/** The set, and every place that leads to one of its places. */
export function withParents({ own, below }: FieldSet): FieldSet {
  return fieldSet(
    own || below.size > 0,
    [...below].map(([key, set]) => [key, withParents(set)]),
  );
}

/** Without a whole branch. */
export function withoutBranch(set: FieldSet, ...path: readonly string[]): FieldSet {
  const [key, ...rest] = path;
  if (key === undefined) return NOTHING;
  const branch = set.below.get(key);
  if (branch === undefined) return set;
  const left = withoutBranch(branch, ...rest);
  if (left === branch) return set;
  const below = new Map(set.below);
  if (isEmpty(left)) below.delete(key);
  else below.set(key, left);
  return { own: set.own, below };
}

/** Places as messages name them, `.spec.containers[name="c"].image`; those of a level before those below it. */
export function pathsOf(set: FieldSet, prefix = ""): string[] {
  const keys = [...set.below.keys()].sort();
  return [
    ...keys.filter((key) => set.below.get(key)?.own === true).map((key) => prefix + printKey(key)),
    ...keys.flatMap((key) => pathsOf(set.below.get(key) ?? NOTHING, prefix + printKey(key))),
  ];
}

/** The step that a key is. */
export function printKey(key: string): string {
  const rest = key.slice(2);
  if (key.startsWith("v:")) return `[=${rest}]`;
  if (!key.startsWith("k:")) return `.${rest}`;
  const parsed: unknown = JSON.parse(rest);
  const pairs = isObject(parsed) ? Object.entries(parsed) : [];
  return `[${pairs.map(([name, value]) => `${name}=${JSON.stringify(value)}`).join(",")}]`;
}

/** Sets that were read or written before, so that a record that stays is not made again with each write. */
const written = new WeakMap<FieldSet, JsonObject>();
const read = new WeakMap<JsonObject, FieldSet>();

export function toFieldsV1(set: FieldSet): JsonObject {
  const known = written.get(set);
  if (known !== undefined) return known;
  const fields = writeFields(set);
  written.set(set, fields);
  read.set(fields, set);
  return fields;
}

export function fromFieldsV1(fields: JsonObject): FieldSet {
  const known = read.get(fields);
  if (known !== undefined) return known;
  const set = { ...readFields(fields), own: false };
  read.set(fields, set);
  return set;
}

function writeFields({ below }: FieldSet): JsonObject {
  const keys = [...below.keys()].sort();
  return Object.fromEntries(
    keys.map((key): [string, Json] => {
      const set = below.get(key) ?? NOTHING;
      const children = writeFields(set);
      const isLeaf = set.below.size === 0;
      return [key, isLeaf || !set.own ? children : { ".": {}, ...children }];
    }),
  );
}

function readFields(fields: JsonObject): FieldSet {
  const children = Object.entries(fields).filter(([key]) => key !== ".");
  const own = Object.hasOwn(fields, ".") || children.length === 0;
  return fieldSet(
    own,
    children.map(([key, child]) => [key, readFields(isObject(child) ? child : {})]),
  );
}
