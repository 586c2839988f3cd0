import type { Journal, JournalEntry } from "./journal.ts";
import { type JsonObject, setAt } from "./json.ts";
import { getRevision } from "./metadata.ts";

/** One step of the history of a bucket. */
export type Change = {
  readonly revision: number;
  readonly key: string;
  /** Undefined for a creation. */
  readonly before: JsonObject | undefined;
  /** Undefined for a removal. */
  readonly after: JsonObject | undefined;
};

export type Entry = readonly [key: string, object: JsonObject];

/** All objects in memory, with their recent history and one revision that counts every change. */
export type ObjectStore = {
  revision(): number;
  get(bucket: string, key: string): JsonObject | undefined;
  /** Lists entries by key. */
  entries(bucket: string): readonly Entry[];
  /** Lists the entries at an earlier revision; undefined if the history does not reach back so far. */
  entriesAt(bucket: string, revision: number): readonly Entry[] | undefined;
  /** Writes the object with its new revision, or removes it; returns the step. */
  commit(bucket: string, key: string, object: JsonObject | undefined): Change;
  /** Lists steps after a revision, oldest first; undefined if the history does not reach back so far. */
  changesAfter(bucket: string, revision: number): readonly Change[] | undefined;
  /** Calls the listener within the commit, in order; the returned function unsubscribes it. */
  subscribe(listener: (bucket: string, change: Change) => void): () => void;
  /** Drops the history: every revision that a client knows becomes too old. */
  expireHistory(): void;
};

type Bucket = {
  readonly objects: Map<string, JsonObject>;
  /** Undefined after a key was added or removed. */
  sortedKeys: string[] | undefined;
  changes: Change[];
  /** The history holds every step after this revision. */
  start: number;
};

export type StoreOptions = {
  /** Maximum steps in the history of each bucket. */
  readonly historyLimit: number;
  /** Every change is written here before a client sees it. Without a journal, the state ends with the process. */
  readonly journal?: Journal | undefined;
};

/** Begins with the content of the journal. */
export function makeObjectStore({ historyLimit, journal }: StoreOptions): ObjectStore {
  const { open, write, forget, everything } = memoryBuckets(historyLimit);
  const listeners = new Set<(bucket: string, change: Change) => void>();
  let revision = 1;
  const changesAfter = (name: string, after: number): readonly Change[] | undefined => {
    const { changes, start } = open(name);
    return after < start ? undefined : changes.slice(firstAfter(changes, after));
  };
  const entries = (name: string): readonly Entry[] => sortedEntries(open(name));

  for (const record of journal?.replay() ?? []) {
    if (record.do === "keep") open(record.bucket).objects.set(record.key, record.object);
    else {
      revision = record.revision;
      if (record.do === "write") write(record.bucket, { revision, key: record.key, after: record.object });
      else forget(revision);
    }
  }

  return {
    revision: () => revision,
    get: (name, key) => open(name).objects.get(key),
    entries,
    entriesAt: (name, at) => {
      const changes = changesAfter(name, at);
      return changes === undefined ? undefined : undoChange(entries(name), changes);
    },
    commit: (name, key, object) => {
      const next = revision + 1;
      const after = object === undefined ? undefined : setAt(object, ["metadata", "resourceVersion"], String(next));
      journal?.append({ do: "write", revision: next, bucket: name, key, object: after });
      revision = next;
      const change = write(name, { revision, key, after });
      journal?.compactWhenLarge(revision, everything);
      for (const listener of listeners) listener(name, change);
      return change;
    },
    changesAfter,
    subscribe: (listener) => {
      listeners.add(listener);
      return () => {
        listeners.delete(listener);
      };
    },
    expireHistory: () => {
      journal?.append({ do: "forget", revision: revision + 1 });
      revision += 1;
      forget(revision);
    },
  };
}

/** The objects of each bucket and their history. */
function memoryBuckets(historyLimit: number) {
  const buckets = new Map<string, Bucket>();
  let forgotten = 0;
  const open = (name: string): Bucket => {
    const known = buckets.get(name);
    if (known !== undefined) return known;
    const bucket: Bucket = { objects: new Map(), sortedKeys: undefined, changes: [], start: forgotten };
    buckets.set(name, bucket);
    return bucket;
  };
  return {
    open,
    write: (name: string, { revision, key, after }: Omit<Change, "before">): Change => {
      const bucket = open(name);
      const before = bucket.objects.get(key);
      if (after === undefined) bucket.objects.delete(key);
      else bucket.objects.set(key, after);
      if ((before === undefined) !== (after === undefined)) bucket.sortedKeys = undefined;
      const change: Change = { revision, key, before, after };
      bucket.changes.push(change);
      trim(bucket, historyLimit);
      return change;
    },
    /** Drops the history up to this revision, which is the latest. */
    forget: (revision: number): void => {
      forgotten = revision;
      for (const bucket of buckets.values()) {
        bucket.changes = [];
        bucket.start = revision;
      }
    },
    everything: (): Iterable<JournalEntry> => allOf(buckets),
  };
}

function sortedEntries(bucket: Bucket): readonly Entry[] {
  bucket.sortedKeys ??= [...bucket.objects.keys()].sort();
  return bucket.sortedKeys.flatMap((key) => {
    const object = bucket.objects.get(key);
    return object === undefined ? [] : [[key, object] as const];
  });
}

function* allOf(buckets: ReadonlyMap<string, Bucket>): Generator<JournalEntry> {
  for (const [bucket, { objects }] of buckets) {
    for (const [key, object] of objects) yield { bucket, key, object };
  }
}

/** Reverts steps: returns the state before them. */
export function undoChange(entries: readonly Entry[], changes: readonly Change[]): readonly Entry[] {
  if (changes.length === 0) return entries;
  const objects = new Map(entries);
  for (const { key, before } of changes.toReversed()) {
    if (before === undefined) objects.delete(key);
    else objects.set(key, before);
  }
  return [...objects].sort(([a], [b]) => (a < b ? -1 : 1));
}

/** The last state that a watcher sees of an object: the state before, with the revision of its removal. */
export function buildRemovedObject(before: JsonObject, revision: number): JsonObject {
  return getRevision(before) === String(revision)
    ? before
    : setAt(before, ["metadata", "resourceVersion"], String(revision));
}

/** Trims in larger steps, so that each commit stays cheap. */
function trim(bucket: Bucket, limit: number): void {
  if (bucket.changes.length < limit * 2) return;
  const dropped = bucket.changes.length - limit;
  bucket.start = bucket.changes[dropped - 1]?.revision ?? bucket.start;
  bucket.changes = bucket.changes.slice(dropped);
}

function firstAfter(changes: readonly Change[], revision: number): number {
  let low = 0;
  let high = changes.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((changes[middle]?.revision ?? 0) <= revision) low = middle + 1;
    else high = middle;
  }
  return low;
}
