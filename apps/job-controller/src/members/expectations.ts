/** An expectation older than this counts as met, because its event was lost. */
export const EXPECTATION_MS = 5 * 60_000;
/** Expired rows of deleted jobs are removed at most this often. */
const FORGET_EVERY_MS = 10_000;

/** Changes that were requested and not yet observed: creations by name, deletions by uid. */
type Outstanding = { readonly creations?: Iterable<string>; readonly deletions?: Iterable<string> };

/**
 * The changes that a controller has requested and its cache does not show yet. While a key has outstanding changes, the cache lags behind our own writes. A
 * decision by that cache would create or delete a second time. Keeps names and uids instead of counts. An event for an unexpected member has no effect, while a
 * count would decrease (even below zero) and hide an outstanding creation. A member's name follows from its owner, type and index, so a creation is identified
 * by name before the answer. A deletion is identified by uid, whatever set the object is in by then, because its labels may change between our read and our
 * request. Each expectation expires separately: a new one under the key does not extend an old one.
 */
export type Expectations = {
  /** Records expectations. Call it before the request is sent, because the event may arrive before the answer. */
  raise(key: string, expected: Outstanding): void;
  /** Removes expectations of a request that was refused or never sent. After a timeout a creation may have happened, and its expectation must stay. */
  lower(key: string, expected: Outstanding): void;
  /** Limits the expectation of a creation without an answer to `ms` from now, and never extends it. */
  shorten(key: string, creation: string, ms: number): void;
  creationObserved(key: string, name: string): void;
  /** Records a deletion under any key. Each deletion is expected under at most one key, the last. */
  deletionObserved(uid: string): void;
  /** True if no change is outstanding under the key. */
  satisfied(key: string): boolean;
  /** True if no pod of the job is outstanding, of any replica type, even one outside the spec. */
  podsSatisfied(jobUid: string): boolean;
  /** Returns the outstanding changes under the key, to explain why a job waits. */
  outstanding(key: string): { readonly creations: readonly string[]; readonly deletions: readonly string[] };
  /** Forgets the job. A later job of the same name has another uid, and so no outstanding changes. */
  deleteJob(jobUid: string): void;
  /** Returns the number of keys, which the outstanding changes limit. */
  size(): number;
};

/** Returns the key of the pods of one replica type of one job. */
export function buildPodsKey(jobUid: string, replicaType: string): string {
  return `${jobUid}/${replicaType}/pods`;
}

/** Returns the key of the services of one replica type of one job. */
export function buildServicesKey(jobUid: string, replicaType: string): string {
  return `${jobUid}/${replicaType}/services`;
}

/** Maps each name or uid to the end of its expectation. */
type Until = Map<string, number>;
type Row = { readonly creations: Until; readonly deletions: Until };

/** Creates empty expectations. `now` is monotonic, in milliseconds. */
export function makeExpectations(now: () => number = () => performance.now()): Expectations {
  const rows = expectedRows(now);
  const { raise, lower, live, drop } = rows;
  const satisfied = (key: string): boolean => live(key) === undefined;
  return {
    raise,
    lower,
    shorten: (key, creation, ms) => shorten(rows.get(key)?.creations, creation, now() + ms),
    creationObserved: (key, name) => lower(key, { creations: [name] }),
    deletionObserved: (uid) => {
      const key = rows.keyOfDeletion(uid);
      if (key !== undefined) lower(key, { deletions: [uid] });
    },
    satisfied,
    podsSatisfied: (uid) => rows.keysOf(uid).every((key) => !key.endsWith("/pods") || satisfied(key)),
    outstanding: (key) => {
      const row = live(key);
      return { creations: [...(row?.creations.keys() ?? [])], deletions: [...(row?.deletions.keys() ?? [])] };
    },
    deleteJob: (uid) => {
      for (const key of rows.keysOf(uid)) drop(key);
    },
    size: () => rows.size(),
  };
}

type ExpectedRows = Pick<Expectations, "raise" | "lower" | "size"> & {
  get(key: string): Row | undefined;
  /** Returns the row without expired entries; undefined if it is empty. */
  live(key: string): Row | undefined;
  drop(key: string): void;
  keysOf(jobUid: string): readonly string[];
  keyOfDeletion(uid: string): string | undefined;
};

/** The outstanding changes, by job and key, and each deletion under one key only. No row is empty. */
function expectedRows(now: () => number): ExpectedRows {
  const jobs = new Map<string, Map<string, Row>>();
  const deletionKeys = new Map<string, string>();
  let forgetAtMs = -Infinity;

  function get(key: string): Row | undefined {
    return jobs.get(parseJobUid(key))?.get(key);
  }

  function raise(key: string, expected: Outstanding): void {
    const untilMs = now() + EXPECTATION_MS;
    const row = live(key) ?? { creations: new Map(), deletions: new Map() };
    for (const name of expected.creations ?? []) row.creations.set(name, untilMs);
    for (const uid of expected.deletions ?? []) {
      const other = deletionKeys.get(uid);
      if (other !== undefined && other !== key) lower(other, { deletions: [uid] });
      row.deletions.set(uid, untilMs);
      deletionKeys.set(uid, key);
    }
    if (isEmpty(row)) return;
    const uid = parseJobUid(key);
    const rows = jobs.get(uid);
    // A pass during the deletion of its job may leave rows that no pass reads again. Their removal takes time if many jobs exist, so it is limited.
    if (rows === undefined && now() >= forgetAtMs) forgetExpired();
    jobs.set(uid, (rows ?? new Map<string, Row>()).set(key, row));
  }

  function lower(key: string, expected: Outstanding): void {
    const row = get(key);
    if (row === undefined) return;
    for (const name of expected.creations ?? []) row.creations.delete(name);
    for (const uid of expected.deletions ?? []) if (row.deletions.delete(uid)) deletionKeys.delete(uid);
    if (isEmpty(row)) drop(key);
  }

  function live(key: string): Row | undefined {
    const row = get(key);
    if (row === undefined) return undefined;
    const over = (until: Until): string[] => [...until].flatMap(([id, untilMs]) => (now() >= untilMs ? [id] : []));
    lower(key, { creations: over(row.creations), deletions: over(row.deletions) });
    return isEmpty(row) ? undefined : row;
  }

  function drop(key: string): void {
    const uid = parseJobUid(key);
    const rows = jobs.get(uid);
    for (const deletion of rows?.get(key)?.deletions.keys() ?? []) deletionKeys.delete(deletion);
    rows?.delete(key);
    if (rows?.size === 0) jobs.delete(uid);
  }

  function forgetExpired(): void {
    forgetAtMs = now() + FORGET_EVERY_MS;
    for (const key of [...jobs.values()].flatMap((rows) => [...rows.keys()])) live(key);
  }

  return {
    get,
    raise,
    lower,
    live,
    drop,
    keysOf: (jobUid) => [...(jobs.get(jobUid)?.keys() ?? [])],
    keyOfDeletion: (uid) => deletionKeys.get(uid),
    size: () => [...jobs.values()].reduce((sum, each) => sum + each.size, 0),
  };
}

function shorten(until: Until | undefined, id: string, endMs: number): void {
  const untilMs = until?.get(id);
  if (untilMs !== undefined) until?.set(id, Math.min(untilMs, endMs));
}

function parseJobUid(key: string): string {
  return key.slice(0, key.indexOf("/"));
}

function isEmpty(row: Row): boolean {
  return row.creations.size === 0 && row.deletions.size === 0;
}
