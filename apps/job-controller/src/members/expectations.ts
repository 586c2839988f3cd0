/** After this long an expectation counts as met: the event that would have met it was lost. */
export const EXPECTATION_MS = 5 * 60_000;
/** Rows that nobody asks for again are looked for at most this often. */
const FORGET_EVERY_MS = 10_000;

/** Members that were asked for and not yet seen: creations by name, deletions by uid. */
export type Outstanding = { readonly creations?: Iterable<string>; readonly deletions?: Iterable<string> };

/**
 * What a controller has asked the API server for and its cache does not show yet. While a key has something outstanding, the cache is behind our own writes,
 * and whoever decided by it would create or delete a second time.
 *
 * Names and uids are kept, not numbers. An event that comes twice, or late, for a member that nobody expects changes nothing, where a number would go down (below
 * zero even) and hide a creation that is really outstanding. Names of members are their owner's, type's and index's, so a creation is known by name before the
 * answer is there. A deletion is of one object, so it is known by uid, whatever set the object is in by then: its labels may change between our look and our request.
 *
 * Each expectation runs out by itself: a new one under the key does not prolong an old one.
 */
export type Expectations = {
  /** Call before the request is sent: the event may be here before the answer. */
  raise(key: string, expected: Outstanding): void;
  /** Takes back what will not happen: the request was refused, or never sent. After a timeout a creation may have happened, and its expectation must stay. */
  lower(key: string, expected: Outstanding): void;
  /** A creation of which nobody knows whether it will come is expected for so many milliseconds from now, and not for longer than before. */
  shorten(key: string, creation: string, ms: number): void;
  creationObserved(key: string, name: string): void;
  /** Under whatever key it is expected; it is under one at most, the last. */
  deletionObserved(uid: string): void;
  /** True when nothing is outstanding under the key. */
  satisfied(key: string): boolean;
  /** True when no pod of the job is outstanding, of whatever replica type: also of one that its spec does not have any more. */
  podsSatisfied(jobUid: string): boolean;
  /** What is outstanding under the key, for whoever asks why a job waits. */
  outstanding(key: string): { readonly creations: readonly string[]; readonly deletions: readonly string[] };
  /** Forgets the job. Another one of its name has another uid, and so nothing outstanding. */
  deleteJob(jobUid: string): void;
  /** Keys that are kept; bounded by what is outstanding. */
  size(): number;
};

/** Key of the pods of one replica type of one job. */
export function podsKey(jobUid: string, replicaType: string): string {
  return `${jobUid}/${replicaType}/pods`;
}

/** Key of the services of one replica type of one job. */
export function servicesKey(jobUid: string, replicaType: string): string {
  return `${jobUid}/${replicaType}/services`;
}

/** Name or uid, and until when it is expected. */
type Until = Map<string, number>;
type Row = { readonly creations: Until; readonly deletions: Until };

/** No expectations yet. `now` is in milliseconds and never goes back. */
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
  /** The row without what has run out; undefined when nothing is left of it. */
  live(key: string): Row | undefined;
  drop(key: string): void;
  keysOf(jobUid: string): readonly string[];
  keyOfDeletion(uid: string): string | undefined;
};

/** What is outstanding, by job and key, and each deletion under one key only. No row is empty. */
function expectedRows(now: () => number): ExpectedRows {
  const jobs = new Map<string, Map<string, Row>>();
  const deletionKeys = new Map<string, string>();
  let forgetAtMs = -Infinity;

  function get(key: string): Row | undefined {
    return jobs.get(jobUidOf(key))?.get(key);
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
    const uid = jobUidOf(key);
    const rows = jobs.get(uid);
    // A pass that was under way when its job was deleted may leave rows that nobody asks for again. Among many jobs it takes time to find them.
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
    const uid = jobUidOf(key);
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

function jobUidOf(key: string): string {
  return key.slice(0, key.indexOf("/"));
}

function isEmpty(row: Row): boolean {
  return row.creations.size === 0 && row.deletions.size === 0;
}
