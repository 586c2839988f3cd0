import { MalformedAnswerError } from "./kube-error.ts";
import type { KubeObject } from "./list-watch.ts";

export type CacheChange<Kept> = {
  readonly key: string;
  readonly before: Kept | undefined;
  readonly after: Kept | undefined;
};

type Row<Kept> = { readonly uid: string; readonly resourceVersion: string; readonly kept: Kept };

/** What a reflector knows of one resource. Each way in returns the changes it made; per key their `before` is always the last `after`. */
export type Cache<Object extends KubeObject, Kept> = {
  get(key: string): Kept | undefined;
  list(): readonly Kept[];
  /** An object as it is now. */
  put(object: Object): CacheChange<Kept>[];
  /** An object that is gone. */
  remove(object: Object): CacheChange<Kept>[];
  /** Ingests the pages of one list. `finish` makes the cache equal to the list: what the list does not have is gone. */
  replace(): { add(items: readonly Object[]): void; finish(): CacheChange<Kept>[] };
};

/** An empty cache. `project` decides what is kept; an object for which it throws keeps its former row, and `onPoison` is told. */
export function makeCache<Object extends KubeObject, Kept>(
  project: (object: Object) => Kept,
  onPoison: (error: unknown) => void,
): Cache<Object, Kept> {
  const rows = new Map<string, Row<Kept>>();

  function read(object: Object): Row<Kept> | undefined {
    try {
      const { metadata } = object;
      return {
        uid: metadata?.uid ?? "",
        resourceVersion: metadata?.resourceVersion ?? "",
        kept: project(object),
      };
    } catch (error) {
      onPoison(error);
      return undefined;
    }
  }

  function set(key: string, row: Row<Kept>): CacheChange<Kept>[] {
    const old = rows.get(key);
    if (old?.uid === row.uid && old.resourceVersion === row.resourceVersion) return [];
    rows.set(key, row);
    // Another uid is another object of the same name: the end of the first one happened, even if nobody told.
    if (old !== undefined && old.uid !== row.uid) {
      return [
        { key, before: old.kept, after: undefined },
        { key, before: undefined, after: row.kept },
      ];
    }
    return [{ key, before: old?.kept, after: row.kept }];
  }

  function drop(key: string): CacheChange<Kept>[] {
    const old = rows.get(key);
    if (!rows.delete(key)) return [];
    return [{ key, before: old?.kept, after: undefined }];
  }

  return {
    get: (key) => rows.get(key)?.kept,
    list: () => [...rows.values()].map((row) => row.kept),
    put: (object) => {
      const key = keyOf(object);
      const row = read(object);
      return row === undefined ? [] : set(key, row);
    },
    remove: (object) => drop(keyOf(object)),
    replace: () => {
      const listed = new Map<string, Row<Kept> | undefined>();
      return {
        add: (items) => {
          for (const object of items) listed.set(keyOf(object), read(object));
        },
        finish: () => [
          ...[...rows.keys()].filter((key) => !listed.has(key)).flatMap(drop),
          ...[...listed].flatMap(([key, row]) => (row === undefined ? [] : set(key, row))),
        ],
      };
    },
  };
}

/** `namespace/name`, or `name` for what has no namespace. */
function keyOf(object: KubeObject): string {
  const name = object.metadata?.name;
  const namespace = object.metadata?.namespace;
  if (name === undefined || name === "") throw new MalformedAnswerError(`an object without a name: ${object.kind}`);
  return namespace === undefined ? name : `${namespace}/${name}`;
}
