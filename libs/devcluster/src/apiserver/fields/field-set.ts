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
    [...a.below].map(([key, set]) => [key, intersection(set, b.below.get(key) ?? NOTHING)]),
  );
}

export function difference(a: FieldSet, b: FieldSet): FieldSet {
  if (isEmpty(a) || isEmpty(b)) return a;
  return fieldSet(
    a.own && !b.own,
    [...a.below].map(([key, set]) => [key, difference(set, b.below.get(key) ?? NOTHING)]),
  );
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
  return fieldSet(
    set.own,
    [...set.below].map(([name, one]) => [name, name === key ? withoutBranch(one, ...rest) : one]),
  );
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

export function toFieldsV1({ below }: FieldSet): JsonObject {
  const keys = [...below.keys()].sort();
  return Object.fromEntries(
    keys.map((key): [string, Json] => {
      const set = below.get(key) ?? NOTHING;
      const children = toFieldsV1(set);
      const isLeaf = set.below.size === 0;
      return [key, isLeaf || !set.own ? children : { ".": {}, ...children }];
    }),
  );
}

export function fromFieldsV1(fields: JsonObject, isRoot = true): FieldSet {
  const children = Object.entries(fields).filter(([key]) => key !== ".");
  const own = Object.hasOwn(fields, ".") || children.length === 0;
  return fieldSet(
    own && !isRoot,
    children.map(([key, child]) => [key, fromFieldsV1(isObject(child) ? child : {}, false)]),
  );
}
