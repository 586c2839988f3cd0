import { MalformedAnswerError } from "./kube-error.ts";
import { makeKeyIndex, type KeyIndex } from "./key-index.ts";
import type { KubeObject } from "./list-watch.ts";

export type CacheChange<Kept> = {
  readonly key: string;
  readonly before: Kept | undefined;
  readonly after: Kept | undefined;
};

type Row<Kept> = { readonly uid: string; readonly resourceVersion: string; readonly kept: Kept };

/** The state of one resource in a reflector. `put`, `remove` and `finish` return the changes they made; per key, `before` is always the last `after`. */
export type Cache<Object extends KubeObject, Kept> = {
  get(key: string): Kept | undefined;
  list(): readonly Kept[];
  /** Returns the objects with this value of the index, in no particular order. */
  byIndex(name: string, value: string): readonly Kept[];
  put(object: Object): CacheChange<Kept>[];
  /** Removes a deleted object. */
  remove(object: Object): CacheChange<Kept>[];
  /** Ingests the pages of one list. `finish` makes the cache equal to the list: it drops objects that the list lacks. */
  replace(): { add(items: readonly Object[]): void; finish(): CacheChange<Kept>[] };
};

/** Returns the values under which `byIndex` finds an object. The cache calls it again when the object is replaced, so it must depend on its argument alone. */
export type IndexBy<Kept> = (kept: Kept) => readonly string[];

/** An empty cache. When `project` or an index throws for an object, the cache keeps the former row and calls `onPoison`. */
export function makeCache<Object extends KubeObject, Kept>(
  project: (object: Object) => Kept,
  onPoison: (error: unknown) => void,
  indexes: Readonly<Record<string, IndexBy<Kept>>> = {},
): Cache<Object, Kept> {
  const rows = indexedRows(indexes);

  function read(object: Object): Row<Kept> | undefined {
    try {
      const { metadata } = object;
      const kept = project(object);
      rows.check(kept);
      return { uid: metadata?.uid ?? "", resourceVersion: metadata?.resourceVersion ?? "", kept };
    } catch (error) {
      onPoison(error);
      return undefined;
    }
  }

  return {
    get: (key) => rows.get(key),
    list: () => rows.list(),
    byIndex: (name, value) => rows.byIndex(name, value),
    put: (object) => {
      const key = buildObjectKey(object);
      const row = read(object);
      return row === undefined ? [] : rows.set(key, row);
    },
    remove: (object) => rows.drop(buildObjectKey(object)),
    replace: () => {
      const listed = new Map<string, Row<Kept> | undefined>();
      return {
        add: (items) => {
          for (const object of items) listed.set(buildObjectKey(object), read(object));
        },
        finish: () => [
          ...rows
            .keys()
            .filter((key) => !listed.has(key))
            .flatMap((key) => rows.drop(key)),
          ...[...listed].flatMap(([key, row]) => (row === undefined ? [] : rows.set(key, row))),
        ],
      };
    },
  };
}

type IndexedRows<Kept> = Pick<Cache<KubeObject, Kept>, "get" | "list" | "byIndex"> & {
  keys(): readonly string[];
  /** Throws the error of an index for this object. */
  check(kept: Kept): void;
  set(key: string, row: Row<Kept>): CacheChange<Kept>[];
  drop(key: string): CacheChange<Kept>[];
};

/** Rows by key and by every value of every index, always consistent. */
function indexedRows<Kept>(indexes: Readonly<Record<string, IndexBy<Kept>>>): IndexedRows<Kept> {
  const rows = new Map<string, Row<Kept>>();
  const indexed = new Map<string, KeyIndex<Kept>>(
    Object.entries(indexes).map(([name, by]) => [name, makeKeyIndex(by)]),
  );
  return {
    get: (key) => rows.get(key)?.kept,
    list: () => [...rows.values()].map((row) => row.kept),
    keys: () => [...rows.keys()],
    byIndex: (name, value) => {
      const index = indexed.get(name);
      if (index === undefined) throw new Error(`no index ${name}`);
      return index.keys(value).flatMap((key) => {
        const row = rows.get(key);
        return row === undefined ? [] : [row.kept];
      });
    },
    check: (kept) => {
      for (const index of indexed.values()) index.check(kept);
    },
    set: (key, row) => {
      const old = rows.get(key);
      if (old?.uid === row.uid && old.resourceVersion === row.resourceVersion) return [];
      rows.set(key, row);
      for (const index of indexed.values()) index.move(key, old?.kept, row.kept);
      // Another uid is another object of the same name: the first one was deleted, even if no event reported it.
      if (old !== undefined && old.uid !== row.uid) {
        return [
          { key, before: old.kept, after: undefined },
          { key, before: undefined, after: row.kept },
        ];
      }
      return [{ key, before: old?.kept, after: row.kept }];
    },
    drop: (key) => {
      const old = rows.get(key);
      if (old === undefined) return [];
      rows.delete(key);
      for (const index of indexed.values()) index.move(key, old.kept, undefined);
      return [{ key, before: old.kept, after: undefined }];
    },
  };
}

/** The key of an object in an informer: `namespace/name`, or `name` for cluster-scoped objects. Throws MalformedAnswerError for an object without a name. */
export function buildObjectKey(object: KubeObject): string {
  const name = object.metadata?.name;
  const namespace = object.metadata?.namespace;
  if (name === undefined || name === "") throw new MalformedAnswerError(`an object without a name: ${object.kind}`);
  return namespace === undefined ? name : `${namespace}/${name}`;
}
